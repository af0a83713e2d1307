"""jax-privacy: the proven ε of its batch selection strategies, each for the batches that it really draws.

Its own accountant knows Poisson sampling and fixed batches, and is told which of them to assume; what the strategy
draws is not looked at. Here the strategy decides, and what no theorem covers gets the plain ε, that of batches that
everybody knows.
"""

import math
from dataclasses import dataclass
from typing import Any

from shoal.checks import known, positive, probability, whole
from shoal.errors import MissingExtraError, ParameterError
from shoal.interop.dp_accounting import from_event
from shoal.sgd.guarantees import guarantee
from shoal.sgd.run import Run

_ADJACENCIES = ("replace", "zero-out")


def strategy_epsilon(
    strategy: Any,
    *,
    examples: int,
    noise_multiplier: float,
    delta: float,
    iterations: int | None = None,
    adjacency: str = "replace",
) -> float:
    """Return a proven ε of training with the batches of a strategy of jax-privacy, rounded up.

    Parameters
    ----------
    strategy : object
        `BallsInBinsSampling`: every example keeps one random step of a cycle. `CyclicPoissonSampling`: coins, in the
        steps of a group. `FixedBatchSampling`: no theorem here makes use of its randomness, and so ε is that of batches
        which everybody knows. Others are refused.
    examples : int
        How many there are, which is public.
    noise_multiplier : float
        The deviation of the noise on a sum, in units of the clip norm, independent for every step.
    delta : float
        δ.
    iterations : int, optional
        How many steps were made; those of the strategy if not given.
    adjacency : {"replace", "zero-out"}
        What neighbours differ in: an example, or one whose gradient is zero in one of them.
    """
    known(_ADJACENCIES, adjacency=adjacency)
    selection = _selection()
    count = whole(examples=examples, least=2)
    noise, delta = positive(noise_multiplier=noise_multiplier), probability(delta=delta)
    if not isinstance(strategy, selection.BatchSelectionStrategy):
        raise ParameterError(f"this is no batch selection strategy of jax-privacy: {strategy!r}")
    steps = whole(iterations=getattr(strategy, "iterations", 0) if iterations is None else iterations)
    if isinstance(strategy, selection.BallsInBinsSampling):
        cycle = strategy.cycle_length
        run = Run(
            examples=count,
            batch_size=-(-count // cycle),
            public_steps=cycle,
            epochs=-(-steps // cycle),
            noise_multiplier=noise,
            sampling="kept-allocation",
            adjacency=adjacency,
        )
        return guarantee(run, delta=delta).epsilon
    if isinstance(strategy, selection.CyclicPoissonSampling):
        rounds = -(-steps // strategy.cycle_length)
        return _coins(strategy, count // strategy.cycle_length, noise, rounds, delta)
    if isinstance(strategy, selection.FixedBatchSampling) and not strategy.replace:
        shift = math.sqrt(steps) * (2 if adjacency == "replace" else 1)
        one = Run(examples=2, noise_multiplier=noise / shift, adjacency="zero-out", sampling="fixed-order")
        return guarantee(one, delta=delta).epsilon
    raise ParameterError(f"no theorem here is about the batches of {strategy!r}")


def _coins(strategy: Any, group: int, noise: float, rounds: int, delta: float) -> float:
    """Return ε of the steps of a group, in which the others have no part; dp-accounting knows the losses of a step.

    Those for replaced examples hold for zeroed ones, too: zeroing is a replacement, by an example without a gradient.
    """
    import dp_accounting as accounting

    if strategy.truncated_batch_size is None:
        inner = accounting.GaussianDpEvent(noise)
        event = accounting.PoissonSampledDpEvent(strategy.sampling_prob, inner)
    else:
        if strategy.cycle_length > 1 and strategy.partition_type != _selection().PartitionType.EQUAL_SPLIT:
            raise ParameterError("truncated batches of groups of a size that is not known have no theorem here")
        event = accounting.dp_event.TruncatedSubsampledGaussianDpEvent(
            group, strategy.sampling_prob, strategy.truncated_batch_size, noise
        )
    return from_event(accounting.SelfComposedDpEvent(event, rounds)).epsilon(delta)


@dataclass(frozen=True)
class StrategyAccountant:
    """A `TrainingAccountant` of jax-privacy that goes by the strategy, and not by what it is told of the sampling.

    Parameters
    ----------
    strategy : object
        The strategy whose batches are trained on.
    adjacency : {"replace", "zero-out"}
        What neighbours differ in.
    """

    strategy: Any
    adjacency: str = "replace"

    def compute_epsilon(self, num_updates: Any, dp_params: Any, allow_approximate_cache: bool = False) -> float:
        """Return ε after this many updates, at the δ of the parameters."""
        del allow_approximate_cache
        if int(num_updates) == 0:
            return 0.0
        if not dp_params.is_finite_guarantee:
            return math.inf
        several = dp_params.examples_per_user not in (None, 1) or dp_params.batch_size_scale_schedule
        if several or not isinstance(dp_params.noise_multipliers, int | float):
            raise ParameterError(
                "one noise multiplier, one batch size and one example a user are known here; for others no theorem is"
            )
        return strategy_epsilon(
            self.strategy,
            examples=dp_params.num_samples,
            noise_multiplier=dp_params.noise_multipliers,
            delta=dp_params.delta,
            iterations=int(num_updates),
            adjacency=self.adjacency,
        )


def _selection() -> Any:
    try:
        from jax_privacy import batch_selection
    except ImportError:
        raise MissingExtraError("this needs jax-privacy and dp-accounting: pip install jax-privacy") from None
    return batch_selection
