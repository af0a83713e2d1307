"""A run next to others: by every sampler that can do it, and as if its batches were drawn by coins.

`compare_samplers` says which sampler has the smallest ε, or needs the least noise. `poisson_comparison` prints what
accounting as if by Poisson sampling would say of a run that drew otherwise, which is not a guarantee of it.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

from shoal.checks import probability
from shoal.digits import rounded_down, rounded_up
from shoal.errors import ParameterError
from shoal.progress import progress
from shoal.sgd.guarantees import Guarantee, calibrate, guarantee
from shoal.sgd.run import Run
from shoal.sgd.run_limits import lower_bound
from shoal.sgd.sampler import SAMPLERS
from shoal.shown import Shown

_PREFERRED = "allocation"
_WITHIN = 1.01
"""It uses every example once an epoch, so it comes first where it is this near to the best."""
_KEPT = "kept-allocation"
"""For one epoch it is an allocation, and not shown."""


class SamplerTable(tuple[Guarantee, ...], Shown):
    """The answer of `compare_samplers`: a guarantee by each sampler, the recommended one first."""

    __slots__ = ()

    def _columns(self) -> dict[str, list[Any]]:
        return {
            "sampling": [each.run.sampling for each in self],
            "epsilon": [each.epsilon for each in self],
            "delta": [each.delta for each in self],
            "noise_multiplier": [each.run.multiplier for each in self],
            "bound": [each.bound for each in self],
        }

    def _cells(self) -> dict[str, list[str]]:
        return {
            "sampling": [each.run.sampling for each in self],
            "ε": [rounded_up(each.epsilon) for each in self],
            "noise": [f"{each.run.multiplier:.6g}" for each in self],
            "bound": [each.bound for each in self],
        }

    def _caption(self) -> str:
        return "the same run by every sampler, the recommended one first"


def compare_samplers(run: Run, *, delta: float, epsilon: float | None = None) -> SamplerTable:
    """Return the guarantees of a run by each sampler that can do it, the recommended one first.

    A guarantee is that of what *was* drawn: the comparison is for choosing before the training begins.

    Parameters
    ----------
    run : Run
        What is done; its `sampling` is not looked at.
    delta : float
        δ of the guarantees.
    epsilon : float, optional
        ε that each must have; then the noise is calibrated for each sampler, and the least noise comes first.

    Examples
    --------
    >>> run = Run(examples=6_000, batch_size=60, noise_multiplier=2)
    >>> [each.run.sampling for each in compare_samplers(run, delta=1e-6)][:2]
    ['allocation', 'poisson']
    """
    runs = list[Run]()
    for name, sampler in SAMPLERS.items():
        if name == _KEPT and run.epochs == 1:
            continue
        try:
            runs.append(replace(run, sampling=name, public_steps=run.public_steps if sampler.any_steps else None))
        except ParameterError:
            continue
    results = list[Guarantee]()
    for each in progress(runs, total=len(runs), label="comparing samplers"):
        chosen = each if epsilon is None else calibrate(each, epsilon=epsilon, delta=delta)
        results.append(guarantee(chosen, delta=delta))

    def cost(result: Guarantee) -> float:
        return result.epsilon if epsilon is None else result.run.multiplier

    least = min(map(cost, results))

    def rank(result: Guarantee) -> tuple[bool, float]:
        return not (result.run.sampling == _PREFERRED and cost(result) <= _WITHIN * least), cost(result)

    return SamplerTable(sorted(results, key=rank))


@dataclass(frozen=True)
class PoissonComparison(Shown):
    """What holds for a run, and what would hold if its batches had been drawn by coins.

    Attributes
    ----------
    guarantee : Guarantee
        Of the run as it is.
    least : float
        No ε below this holds for the run, whatever the proof.
    poisson_epsilon : float
        What Poisson accounting gives, for another algorithm. NaN where there is so little noise that
        it is not computed.

    Notes
    -----
    All three numbers are for the same neighbouring datasets: one example is replaced if the run says so, and zeroed
    otherwise. Poisson accounting gives the same ε for an example that is zeroed, added or removed.
    """

    guarantee: Guarantee
    least: float
    poisson_epsilon: float

    @property
    def valid(self) -> bool:
        """Whether the Poisson number is a guarantee of this run: never."""
        return False

    def _columns(self) -> dict[str, list[Any]]:
        names = ["guarantee", "no ε below this is true", "Poisson accounting, not valid for this run"]
        return {"what": names, "epsilon": [self.guarantee.epsilon, self.least, self.poisson_epsilon]}

    def _cells(self) -> dict[str, list[str]]:
        return {"what": self._columns()["what"], f"ε at δ = {self.guarantee.delta:g}": self._texts(6)}

    def _texts(self, digits: int) -> list[str]:
        poisson = "not computed" if math.isnan(self.poisson_epsilon) else f"{self.poisson_epsilon:.{digits}g}"
        return [rounded_up(self.guarantee.epsilon, digits), rounded_down(self.least, digits), poisson]

    def __repr__(self) -> str:
        """Show all three, and that one of them is no guarantee."""
        wrong = ""
        if self.least > self.poisson_epsilon:
            wrong = f", {rounded_down(self.least / self.poisson_epsilon, 3)} times too small"
        says = (
            "is not computed for this little noise"
            if math.isnan(self.poisson_epsilon)
            else f"says {self.poisson_epsilon:.4g}"
        )
        return (
            f"PoissonComparison(guarantee ε={rounded_up(self.guarantee.epsilon, 4)}; no ε below "
            f"{rounded_down(self.least, 4)} is true for a {_changed(self.guarantee.run)} example; Poisson {says}: not "
            "valid for this run"
            f"{wrong})"
        )


def poisson_comparison(run: Run, *, delta: float) -> PoissonComparison:
    """Return the guarantee of a run next to the number that accounting as if by Poisson sampling would print.

    Parameters
    ----------
    run : Run
        What is done.
    delta : float
        δ of both numbers.

    Examples
    --------
    >>> run = Run(examples=60_032, batch_size=64, noise_multiplier=0.8, adjacency="zero-out")
    >>> poisson_comparison(run, delta=1e-6)  # doctest: +NORMALIZE_WHITESPACE
    PoissonComparison(guarantee ε=6.313; no ε below 6.059 is true for a zeroed example;
    Poisson says 0.4916: not valid for this run, 12.3 times too small)
    """
    delta = probability(delta=delta)
    if run.sampling == "poisson":
        raise ParameterError(
            "the run drew by Poisson sampling, and guarantee(run, delta=) is Poisson accounting; poisson_comparison is "
            "for runs that drew otherwise"
        )
    neighbours = "replace" if run.adjacency == "replace" else "zero-out"
    least = lower_bound(replace(run, adjacency=neighbours), delta=delta)
    return PoissonComparison(guarantee(run, delta=delta), least, _by_coins(replace(run, adjacency=neighbours), delta))


def _changed(run: Run) -> str:
    """Return the word for what is done to the example by which neighbouring datasets of the comparison differ."""
    return "replaced" if run.adjacency == "replace" else "zeroed"


def _by_coins(run: Run, delta: float) -> float:
    """Return the ε of the run if the same noise were on sums drawn by Poisson sampling; NaN where it has none."""
    drawn = replace(
        run,
        sampling="poisson",
        noise="batch",
        noise_multiplier=run.sum_multiplier,
        epochs=run.epochs * run.participations,
        participations=1,
    )
    epsilon = guarantee(drawn, delta=delta).epsilon
    return epsilon if math.isfinite(epsilon) else math.nan
