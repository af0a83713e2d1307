"""From an engine of Opacus and its loader to the guarantee of the steps that were made, and the noise for an ε."""

import inspect
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from opacus import PrivacyEngine
from opacus.accountants import GaussianAccountant, IAccountant, PRVAccountant, RDPAccountant
from opacus.optimizers import DPOptimizer
from torch import nn
from torch.utils.data import DataLoader

from shoal.amplification.gaussian_clones import FARTHEST
from shoal.assumptions import Assumption
from shoal.checks import positive, probability, whole
from shoal.composition.composition_method import Round
from shoal.digits import rounded_up
from shoal.documentation import linked
from shoal.errors import ParameterError
from shoal.rounding import slack
from shoal.sgd.bounds import THEOREMS, directions, largest_epsilon
from shoal.sgd.guarantees import calibrate, guarantee
from shoal.sgd.opacus.loader_draws import LoaderDraws, check_adjacency, coin_probability
from shoal.sgd.opacus.step_accountant import MECHANISM, StepAccountant, WatchedSteps
from shoal.sgd.participation import PoissonStep
from shoal.sgd.run import Run
from shoal.sgd.run_limits import loader_limit

_FOREIGN = (PRVAccountant, RDPAccountant, GaussianAccountant)
_POISSON = "every example joins every batch by a coin of its own, which is what Opacus accounts for"
_FULL = "every epoch permutes the examples, and all its batches are full"
_DROPPED = (
    "every epoch permutes the examples and drops those after the last full batch: it is a permutation of the others, "
    "or does not use the example at all"
)
_SHORT = (
    "the last batch of an epoch is short, and everybody knows which it is, so that no theorem about a random order "
    "holds for all batches: only that an example is in one of them"
)
_KEPT = "the order of the examples is the same in every epoch, so that it hides nothing"
_UP = 1 + slack(32)
_MORE = 1 + 1e-5


@dataclass(frozen=True, kw_only=True)
class EngineGuarantee:
    """An (ε, δ) that holds for all steps that an engine of Opacus counted.

    Attributes
    ----------
    epsilon, delta : float
        The guarantee.
    lower_bound : float
        No ε below this is true of the run, for all data; 0 where nothing is known.
    bound : str
        Which theorem proves it.
    sampling : str
        What the loader did: "poisson", "permutation" or "fixed-order".
    reason : str
        Why this theorem, and no stronger one.
    adjacency : str
        What may happen to one example.
    examples, batch_size, steps : int
        n, b, and the steps that were made.
    epochs : int
        How many were begun; 0 for Poisson sampling, where only steps count.
    noise_multiplier : float
        σ, the least of all steps.
    """

    epsilon: float
    delta: float
    lower_bound: float
    bound: str
    sampling: str
    reason: str
    adjacency: str
    examples: int
    batch_size: int
    steps: int
    epochs: int
    noise_multiplier: float

    @property
    def theorem(self) -> str:
        """Where the bound is proved."""
        return linked(THEOREMS[self.bound].citation)

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        """What has to be true, and cannot be read from Opacus's objects."""
        what = "replaced by another" if self.adjacency == "replace" else "left out of its batch, its slot empty"
        lines = [
            f"neighbours: one of {self.examples:,} examples {what}; not added or removed, as Opacus computes the "
            "number of steps, and what sums are divided by, from the number of examples",
            "every step had one batch of this loader, none was used twice while another was left out, and empty ones "
            "made their step too; no gradients were accumulated, which Opacus's ghost clipping does not count",
            "every step called the hook that make_private attached, none was made with another one or with none, and "
            "no checkpoint replaced the count of an accountant of Opacus after account",
            "no example touches another's gradient: neither the model nor collate_fn mixes them",
            "the number of steps and their noise were fixed beforehand, and not by what was seen",
            "Opacus's floating-point norms, sums and noise count as exact, and torch's random numbers as perfect; no "
            "generator was seeded again",
        ]
        if self.bound != "plain":
            lines.append("nobody sees which examples a batch has, nor what tells that: its loss, time or size")
        return tuple(map(Assumption, lines))

    def explain(self) -> str:
        """Return the guarantee, why it is this one, and what it rests on, as text."""
        lines = [repr(self), f"  {self.bound}: {self.theorem}", f"  why: {self.reason}", "  assumed:"]
        return "\n".join([*lines, *(f"    {line}" for line in self.assumptions)])

    def to_dict(self) -> dict[str, Any]:
        """Return everything, for JSON; an infinite ε is None."""
        fields = asdict(self) | {"theorem": self.theorem, "assumptions": [str(each) for each in self.assumptions]}
        return fields | {"epsilon": self.epsilon if math.isfinite(self.epsilon) else None}

    def __repr__(self) -> str:
        """Show the guarantee in one line."""
        least = f"; no ε below {math.floor(self.lower_bound * 1000) / 1000:g} is true" if self.lower_bound else ""
        epochs = f" in {self.epochs:,} epoch{'' if self.epochs == 1 else 's'}" if self.epochs else ""
        return (
            f"EngineGuarantee(ε={rounded_up(self.epsilon, 4)} at δ={self.delta:g}, {self.bound}, {self.sampling}, "
            f"{self.steps:,} steps{epochs}, σ={self.noise_multiplier:g}, {self.adjacency}{least})"
        )


class EngineAccount:
    """The steps of an engine, and the loader that their batches came from; `account` makes it."""

    def __init__(
        self,
        accountant: IAccountant,
        draws: LoaderDraws,
        since: tuple[int, int],
        watched: WatchedSteps,
        optimizer: DPOptimizer | None = None,
    ) -> None:
        self._accountant = accountant
        self.draws = draws
        self._since = since
        self.watched = watched
        self.counted_by = None if optimizer is None else (optimizer, optimizer.step_hook)
        """The optimizer, and the hook by which its last step was counted; None before it was seen."""

    @property
    def steps(self) -> int:
        """How many steps the engine counted."""
        return sum(steps for _, _, steps in self._accountant.history)

    @property
    def epochs(self) -> int:
        """How many epochs had begun when the last step was made; 0 for Poisson sampling, where only steps count."""
        if self.draws.order is None:
            return 0
        if isinstance(self._accountant, StepAccountant):
            return self._accountant.epochs_begun
        return self.draws.order.epochs

    def guarantee(self, *, delta: float, adjacency: str = "zero-out") -> EngineGuarantee:
        """Return what is proved of the steps that were made.

        Parameters
        ----------
        delta : float
            δ of the guarantee.
        adjacency : str
            "zero-out", an example is left out of its batch; or "replace", another is in its place.
        """
        delta = self._checked(delta, adjacency)
        history = self._history()
        draws = self.draws
        shared: dict[str, Any] = {
            "delta": delta,
            "adjacency": adjacency,
            "examples": draws.examples,
            "batch_size": draws.batch_size,
            "steps": self.steps,
            "epochs": self.epochs,
            "noise_multiplier": min(noise for noise, _, _ in history),
            "sampling": draws.sampling,
        }
        if draws.order is None:
            epsilon = self._by_coins(delta, adjacency)
            return EngineGuarantee(epsilon=epsilon, lower_bound=0.0, bound="poisson", reason=_POISSON, **shared)
        run = self._run(adjacency)
        reason = _FULL if not draws.left_over else _DROPPED if draws.drop_last else _SHORT
        result = guarantee(run, delta=delta)
        return EngineGuarantee(
            epsilon=result.epsilon,
            lower_bound=self._least(run, delta),
            bound=result.bound,
            reason=reason if draws.sampling == "permutation" else _KEPT,
            **shared,
        )

    def epsilon(self, *, delta: float, adjacency: str = "zero-out") -> float:
        """Return a proven ε of the steps that were made, without asking every theorem; 0 before the first.

        Parameters
        ----------
        delta, adjacency : float, str
            As for `guarantee`.
        """
        delta = self._checked(delta, adjacency)
        self._check_hook()
        if not self._accountant.history:
            return 0.0
        if self.draws.order is None:
            return self._by_coins(delta, adjacency)
        run = self._run(adjacency)
        return run.sampler.epsilon(run, delta)

    @staticmethod
    def _checked(delta: float, adjacency: str) -> float:
        check_adjacency(adjacency)
        return probability(delta=delta)

    def _by_coins(self, delta: float, adjacency: str) -> float:
        each = [(noise, steps) for noise, _, steps in self._history()]
        return coins_epsilon(self.draws.rate, each, delta=delta, adjacency=adjacency)

    def _run(self, adjacency: str) -> Run:
        """Return the run whose theorems hold for what was drawn, with the least noise."""
        least = min(noise for noise, _, _ in self._history())
        return self.draws.run(noise_multiplier=least, epochs=self.epochs, adjacency=adjacency)

    def opacus_epsilon(self, *, delta: float) -> float:
        """Return what an accountant of Opacus prints for the same steps, as if they were drawn by coins.

        It is that of the engine, or "prv", the one that Opacus uses unless it is told otherwise.

        Parameters
        ----------
        delta : float
            δ.
        """
        theirs = self._accountant
        if isinstance(theirs, StepAccountant):
            theirs = PRVAccountant()
            theirs.history = list(self._accountant.history)
        return float(theirs.get_epsilon(delta))

    def __repr__(self) -> str:
        """Show the steps and the loader."""
        draws = self.draws
        last = ""
        if draws.left_over:
            last = f", {draws.left_over:,} dropped" if draws.drop_last else f", the last of {draws.left_over:,}"
        batches = f"batches of {'about ' if draws.order is None else ''}{draws.batch_size:,}"
        return f"EngineAccount({self.steps:,} steps, {draws.sampling}, {draws.examples:,} examples in {batches}{last})"

    def _history(self) -> list[tuple[float, float, int]]:
        """Return noise, rate and number of all steps; refuse steps that were not of one batch of this loader each."""
        self._check_hook()
        history: list[tuple[float, float, int]] = list(self._accountant.history)
        if not history:
            raise ParameterError("the engine has counted no step yet; train first")
        for noise, rate, _ in history:
            if not noise > 0:
                raise ParameterError(f"a step had noise_multiplier = {noise!r}: without noise nothing is guaranteed")
            if rate != 1 / self.draws.steps:
                raise ParameterError(
                    f"the engine counted steps with the sample rate {rate:.6g}, and this loader has "
                    f"{self.draws.steps:,} batches an epoch: either gradients were accumulated over batches, which is "
                    "not known here (use a larger batch_size, and BatchMemoryManager if memory is short), or another "
                    "loader was trained with"
                )
        self.check_drawn()
        return history

    def check_drawn(self, more: int = 0) -> None:
        """Refuse more steps than the loader drew batches since it is watched.

        `more` steps are about to be counted.
        """
        steps = self.steps + more - self._since[0]
        drawn = self.draws.watched.batches - self._since[1]
        if steps > drawn:
            raise ParameterError(
                f"since account was called, this is step {steps:,}, and the loader has drawn {drawn:,} batches: other "
                "batches, or some twice, were trained on; use every batch once, of the loader that make_private "
                "returned, by iterators that are opened after account"
            )

    def _check_hook(self) -> None:
        """Refuse an optimizer that no longer counts its steps as it did."""
        if self.counted_by is not None and self.counted_by[0].step_hook is not self.counted_by[1]:
            raise ParameterError(
                "the step hook of the optimizer is another than when its steps were counted, so that steps may be "
                "missing; do not call attach_step_hook after make_private"
            )

    def _least(self, run: Run, delta: float) -> float:
        """Return an ε below which none is true, if all epochs are whole and have the same noise (docs/opacus.md)."""
        draws = self.draws
        whole = self.steps == self.epochs * draws.steps and len({noise for noise, _, _ in self._history()}) == 1
        if not whole or draws.sampling != "permutation":
            return 0.0
        return loader_limit(replace(run, examples=draws.examples), delta=delta, drop_last=draws.drop_last)


def account(
    engine: PrivacyEngine,
    loader: DataLoader[object],
    optimizer: DPOptimizer | None = None,
    module: nn.Module | None = None,
) -> EngineAccount:
    """Return the account of an engine of Opacus, which reads everything from what `make_private` returned.

    Call it after `make_private` and before the first step: from then on the loader counts its batches and epochs. With
    `PrivacyEngine(accountant="shoal")`, `engine.get_epsilon(delta)` is then the ε of the account. With an accountant of
    Opacus the optimizer is needed too, and with ghost clipping the module.

    Parameters
    ----------
    engine : opacus.PrivacyEngine
        What counts the steps.
    loader : torch.utils.data.DataLoader
        The one that `make_private` returned, and that is trained with.
    optimizer : opacus.optimizers.DPOptimizer, optional
        The one that `make_private` returned. The accountant "shoal" does not need it: it sees who makes the first step.
    module : GradSampleModuleFastGradientClipping, optional
        The one that `make_private` returned, for grad_sample_mode="ghost" alone: it clips the gradients, and so has to
        have the norm that the noise is for.

    Examples
    --------
    >>> import torch, warnings
    >>> from torch.utils.data import DataLoader, TensorDataset
    >>> data = TensorDataset(torch.randn(60, 2), torch.randint(2, (60,)))
    >>> model = torch.nn.Linear(2, 2)
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     engine = PrivacyEngine(accountant="shoal")
    ...     model, optimizer, loader = engine.make_private(
    ...         module=model,
    ...         optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
    ...         data_loader=DataLoader(data, batch_size=16, shuffle=True),
    ...         noise_multiplier=2,
    ...         max_grad_norm=1,
    ...         poisson_sampling=False,
    ...     )
    >>> account(engine, loader)
    EngineAccount(0 steps, permutation, 60 examples in batches of 16, the last of 12)
    """
    if not isinstance(engine, PrivacyEngine):
        raise ParameterError(f"engine must be a PrivacyEngine of Opacus, got {type(engine).__name__}", "engine")
    if engine.dataset is None:
        raise ParameterError("the engine has no loader yet; call engine.make_private first")
    draws = LoaderDraws.of(loader)
    if engine.dataset is not loader.dataset:
        raise ParameterError("the loader has another dataset than the engine was made for; use one engine for each")
    accountant = engine.accountant
    if isinstance(accountant, StepAccountant):
        before = accountant.account
        if before is not None and before.draws.loader is loader:
            if module is not None:
                before.watched.clip_by(module)
            return before
        if before is not None:
            raise ParameterError("the engine has another loader already; use one engine for each loader")
    elif type(accountant) not in _FOREIGN:
        raise ParameterError(
            f'{type(accountant).__name__} is not known here; use PrivacyEngine(accountant="{MECHANISM}")'
        )
    elif optimizer is None:
        raise ParameterError(
            f"the accountant {accountant.mechanism()!r} does not see who makes a step; give account the optimizer that "
            f'make_private returned, too, or use PrivacyEngine(accountant="{MECHANISM}")'
        )
    watched = WatchedSteps()
    if module is not None:
        watched.clip_by(module)
    if optimizer is not None:
        _check_counted(accountant, optimizer)
        watched.watch(optimizer)
    tied = EngineAccount(accountant, draws, _watch(accountant, draws.watched), watched, optimizer)
    if isinstance(accountant, StepAccountant):
        accountant.tie(tied)
    elif optimizer is not None:  # the accountant does not ask, and so torch does, before the model changes
        optimizer.original_optimizer.register_step_pre_hook(lambda *_: watched.check(optimizer))
    return tied


def _watch(accountant: Any, watched: Any) -> tuple[int, int]:
    """Return steps and batches at the time the accountant was tied to the loader; refuse steps made before."""
    for each, steps, batches in watched.since:
        if each is accountant:
            return steps, batches
    if accountant.history and getattr(accountant, "earlier", None) is None:
        raise ParameterError(
            "steps were made before the loader was watched, and which batches they had cannot be seen afterwards; call "
            "account right after make_private"
        )
    steps = sum(number for _, _, number in accountant.history)
    watched.since.append((accountant, steps, watched.batches))
    return steps, watched.batches


def _check_counted(accountant: Any, optimizer: Any) -> None:
    """Refuse an optimizer that does not count its steps with this accountant."""
    hook = optimizer.step_hook
    if not inspect.isfunction(hook) or inspect.getclosurevars(hook).nonlocals.get("self") is not accountant:
        raise ParameterError("the optimizer does not count its steps with this engine; give that of its make_private")


def coins_epsilon(rate: float, steps: Sequence[tuple[float, int]], *, delta: float, adjacency: str) -> float:
    """Return ε of all steps together; infinity where there is too little noise for one.

    The rate is not below the probability with which an example joins a step; `steps` has the
    noise multiplier and the number of each kind of steps.
    """
    rounds = (
        [Round(PoissonStep(_UP / noise, each, rate), FARTHEST, number) for noise, number in steps]
        for each in directions(adjacency)
    )
    return largest_epsilon(rounds, delta)


def noise_multiplier_for(
    loader: DataLoader[object],
    *,
    epsilon: float,
    delta: float,
    epochs: int,
    poisson_sampling: bool = True,
    adjacency: str = "zero-out",
) -> float:
    """Return a `noise_multiplier` for `make_private` with which the account has at most this ε.

    It is within 0.2 % of the smallest. `make_private_with_epsilon` does not know how batches are drawn.

    Parameters
    ----------
    loader : torch.utils.data.DataLoader
        The one that `make_private` is given.
    epsilon, delta : float
        The guarantee.
    epochs : int
        How many are made, to their end.
    poisson_sampling : bool
        As `make_private` is given it.
    adjacency : str
        "zero-out" or "replace".

    Examples
    --------
    >>> import torch
    >>> from torch.utils.data import DataLoader, TensorDataset
    >>> loader = DataLoader(TensorDataset(torch.zeros(6_000, 1)), batch_size=64, shuffle=True)
    >>> round(noise_multiplier_for(loader, epsilon=2, delta=1e-6, epochs=1, poisson_sampling=False), 1)
    2.2
    """
    target = positive(epsilon=epsilon)
    delta = probability(delta=delta)
    epochs = whole(epochs=epochs)
    check_adjacency(adjacency)
    draws = LoaderDraws.of(loader)
    if draws.order is not None and not poisson_sampling:
        run = draws.run(noise_multiplier=None, epochs=epochs, adjacency=adjacency)
        return calibrate(run, epsilon=target, delta=delta).multiplier
    # Opacus makes coins of a loader: one batch of t has the rate 1/t, and an epoch about as many batches.
    rate = coin_probability(1 / draws.steps) if draws.order is not None else draws.rate
    steps = max(draws.steps, 1)
    run = Run(
        examples=draws.examples,
        batch_size=min(draws.batch_size, draws.examples),
        epochs=epochs,
        adjacency=adjacency,
        sampling="poisson",
        public_steps=steps,
    )
    noise = calibrate(run, epsilon=target, delta=delta).multiplier
    more = _MORE
    while coins_epsilon(rate, [(noise, steps * epochs)], delta=delta, adjacency=adjacency) > target:
        noise = noise * more
        more = more * more
    return noise
