"""From an engine of Opacus and its loader to the guarantee of the steps that were made."""

import inspect
from dataclasses import replace
from typing import Any

from opacus import PrivacyEngine
from opacus.accountants import GaussianAccountant, PRVAccountant, RDPAccountant

from shoal.checks import probability
from shoal.errors import ParameterError
from shoal.sgd.guarantees import guarantee
from shoal.sgd.opacus.coin_steps import coins_epsilon
from shoal.sgd.opacus.engine_guarantee import EngineGuarantee
from shoal.sgd.opacus.loader_draws import LoaderDraws, check_adjacency
from shoal.sgd.opacus.step_accountant import MECHANISM, StepAccountant, check_optimizer
from shoal.sgd.run import Run
from shoal.sgd.run_limits import loader_limit

__all__ = ["EngineAccount", "account"]

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


class EngineAccount:
    """The steps of an engine, and the loader that their batches came from; `account` makes it.

    Attributes
    ----------
    draws : LoaderDraws
        What the loader does.
    """

    def __init__(self, accountant: Any, draws: LoaderDraws, since: tuple[int, int], optimizer: Any = None) -> None:
        self._accountant, self.draws, self._since = accountant, draws, since
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
        history, draws = self._history(), self.draws
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

        Parameters
        ----------
        more : int
            How many steps are about to be counted.
        """
        steps, drawn = self.steps + more - self._since[0], self.draws.watched.batches - self._since[1]
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


def account(engine: Any, loader: Any, optimizer: Any = None) -> EngineAccount:
    """Return the account of an engine of Opacus, which reads everything from what `make_private` returned.

    Call it after `make_private` and before the first step: from then on the loader counts its batches and epochs. With
    `PrivacyEngine(accountant="shoal")`, `engine.get_epsilon(delta)` is then the ε of the account. With an accountant of
    Opacus the optimizer is needed too.

    Parameters
    ----------
    engine : opacus.PrivacyEngine
        What counts the steps.
    loader : torch.utils.data.DataLoader
        The one that `make_private` returned, and that is trained with.
    optimizer : opacus.optimizers.DPOptimizer, optional
        The one that `make_private` returned. The accountant "shoal" does not need it: it sees who makes the first step.

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
        raise ParameterError(
            f"engine must be a PrivacyEngine of Opacus, got {type(engine).__name__}", parameter="engine"
        )
    if engine.dataset is None:
        raise ParameterError("the engine has no loader yet; call engine.make_private first")
    draws = LoaderDraws.of(loader)
    if engine.dataset is not loader.dataset:
        raise ParameterError("the loader has another dataset than the engine was made for; use one engine for each")
    accountant = engine.accountant
    if isinstance(accountant, StepAccountant):
        before = accountant.account
        if before is not None and before.draws.loader is loader:
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
    if optimizer is not None:
        _check_counted(accountant, optimizer)
    tied = EngineAccount(accountant, draws, _watch(accountant, draws.watched), optimizer)
    if isinstance(accountant, StepAccountant):
        accountant.tie(tied)
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
    """Refuse an optimizer that is not known, or that does not count its steps with this accountant."""
    check_optimizer(optimizer)
    hook = optimizer.step_hook
    if not inspect.isfunction(hook) or inspect.getclosurevars(hook).nonlocals.get("self") is not accountant:
        raise ParameterError("the optimizer does not count its steps with this engine; give that of its make_private")
