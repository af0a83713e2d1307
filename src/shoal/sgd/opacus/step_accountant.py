"""The steps of an engine of Opacus, each seen and checked: `PrivacyEngine(accountant="shoal")`.

Every step has to have fresh noise, for the norm that its optimizer clips to.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from opacus.accountants import IAccountant, register_accountant
from opacus.grad_sample.grad_sample_module_fast_gradient_clipping import (
    GradSampleHooksFastGradientClipping,
    GradSampleModuleFastGradientClipping,
)
from opacus.optimizers import DPOptimizer, DPOptimizerFastGradientClipping, DPPerLayerOptimizer

from shoal.errors import ParameterError
from shoal.sgd.opacus.loader_draws import GeneratorStates

if TYPE_CHECKING:
    from shoal.sgd.opacus.engine_account import EngineAccount

_KNOWN = (DPOptimizer, DPOptimizerFastGradientClipping, DPPerLayerOptimizer)
"""Each adds noise of deviation noise_multiplier·max_grad_norm to a sum of gradients of at most
that norm, if it clips to `max_grad_norm`, which `WatchedSteps` checks. All others are refused."""
_GHOST_MODULES = (GradSampleModuleFastGradientClipping, GradSampleHooksFastGradientClipping)
MECHANISM = "shoal"


def check_optimizer(optimizer: Any) -> None:
    """Refuse an optimizer whose noise need not be `noise_multiplier` times the largest gradient."""
    if type(optimizer) not in _KNOWN:
        raise ParameterError(
            f"{type(optimizer).__name__} is not known here: adaptive clipping and several "
            'processes add noise in other ways; use clipping="flat" or "per_layer" in one process'
        )
    if hasattr(optimizer, "_adjusted_noise_multiplier"):
        raise ParameterError("the clip norm is adaptive, which costs additional ε; use a fixed max_grad_norm")


class WatchedSteps:
    """Checks of every step of an optimizer, after its noise and before the model changes."""

    def __init__(self) -> None:
        self._module: Any = None
        self._optimizer: Any = None
        self._clipped: set[float] = set()
        """The norms that gradients were clipped to since the last step; with ghost clipping, the
        norm of the module when `account` was called."""
        self.noise = GeneratorStates()
        """Of the noise."""

    def clip_by(self, module: Any) -> None:
        """Note the module that `make_private` returned for ghost clipping, and its norm."""
        if type(module) not in _GHOST_MODULES:
            raise ParameterError(
                "module must be the one that make_private returned for ghost clipping, got "
                f"{type(module).__name__}; leave it out with any other clipping"
            )
        if self._module is None:
            self._module = module
            self._clipped = {float(module.max_grad_norm)}

    def watch(self, optimizer: Any) -> None:
        """Note from now on to what norm this optimizer clips; refuse one that is not known."""
        check_optimizer(optimizer)
        if isinstance(optimizer, DPOptimizerFastGradientClipping):
            self._check_module(optimizer)
        elif optimizer is not self._optimizer:
            clip = optimizer.clip_and_accumulate

            def noted() -> None:
                self._clipped.add(_clip_norm(optimizer))
                clip()

            optimizer.clip_and_accumulate = noted
        self._optimizer = optimizer

    def check(self, optimizer: Any) -> None:
        """Refuse noise that is not fresh or for another norm, and gradients without noise."""
        self.watch(optimizer)
        norms = {*self._clipped, _clip_norm(optimizer if self._module is None else self._module)}
        noised = float(optimizer.max_grad_norm)
        if norms != {noised}:
            raise ParameterError(
                f"the noise of this step is for a max_grad_norm of {noised:g}, and gradients were "
                f"clipped to {', '.join(f'{norm:g}' for norm in sorted(norms))}: max_grad_norm was "
                "changed, perhaps by a scheduler. Keep it as it is; with flat clipping and without "
                'grad_sample_mode="ghost" it may change between two steps'
            )
        if self._module is None:
            self._clipped = set()
        _check_frozen(optimizer)
        if optimizer.noise_multiplier > 0:  # without noise nothing is drawn, and nothing is guaranteed
            self.noise.check(optimizer.generator, optimizer.params[0].device)

    def _check_module(self, optimizer: Any) -> None:
        if self._module is None:
            raise ParameterError(
                "with ghost clipping the module clips the gradients, and its norm has to be seen: "
                "call account(engine, loader, module=module) with the module of make_private"
            )
        clipped = {id(parameter) for parameter in self._module.trainable_parameters}
        if not clipped.issuperset(map(id, optimizer.params)):
            raise ParameterError(
                "the optimizer trains parameters that the module does not clip: it is another "
                "module's, or they were unfrozen after make_private; use another engine, and its "
                "make_private again"
            )


def _clip_norm(clipping: Any) -> float:
    """Return the norm that an optimizer, or a module with ghost clipping, clips gradients to."""
    if isinstance(clipping, DPPerLayerOptimizer):  # as it computes it
        return float(torch.norm(torch.Tensor(clipping.max_grad_norms), p=2))
    return float(clipping.max_grad_norm)


def _check_frozen(optimizer: Any) -> None:
    """Refuse gradients of frozen parameters: torch's optimizer would apply them without noise."""
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            stale = None if parameter.requires_grad else parameter.grad
            if stale is not None and stale.any():
                raise ParameterError(
                    "a frozen parameter has a gradient, which the optimizer would apply without "
                    "clipping or noise; call optimizer.zero_grad() before every backward pass"
                )


class StepAccountant(IAccountant):  # type: ignore[misc]
    """The steps of an engine: how many there were, each with its noise and sample rate.

    It knows no loader, and so no ε by itself: `account(engine, loader)` ties the two before the first step.
    """

    def __init__(self) -> None:
        super().__init__()
        self.history: list[tuple[float, float, int]] = []
        self.account: EngineAccount | None = None
        self.epochs = 0
        self.earlier: dict[str, Any] | None = None
        """How the steps of a checkpoint were drawn, and how many epochs were begun there."""
        self._hooks = self._tied = 0

    def tie(self, account: "EngineAccount") -> None:
        """Count from now on what is drawn by the loader of this account, in steps of the last `make_private`."""
        if self.earlier is not None and account.draws.to_dict() != self.earlier["draws"]:
            raise ParameterError(
                f"the steps of the checkpoint were drawn by {self.earlier['draws']}, and this loader is "
                f"{account.draws.to_dict()}; go on with one that is the same"
            )
        if self.earlier is not None:
            account.draws.seen.update(self.earlier["orders"])
            account.watched.noise.seen.update(self.earlier.get("noise", ()))
        self.account = account
        self._tied = self._hooks

    def step(self, *, noise_multiplier: float, sample_rate: float) -> None:
        """Count one step."""
        if self.account is None:
            raise ParameterError(
                "which loader the batches come from is not known, and so no ε can be; call "
                "shoal.sgd.opacus.account(engine, loader) after make_private, before the first step"
            )
        self.account.check_drawn(1)
        last = self.history[-1] if self.history else None
        if last is not None and last[:2] == (noise_multiplier, sample_rate):
            self.history[-1] = (noise_multiplier, sample_rate, last[2] + 1)
        else:
            self.history.append((noise_multiplier, sample_rate, 1))
        if self.account.draws.order is not None:
            self.epochs = self.account.draws.order.epochs

    def get_epsilon(self, delta: float, *, adjacency: str = "zero-out", **_: object) -> float:
        """Return ε of all steps that were counted, by the loader that was watched.

        Parameters
        ----------
        delta : float
            δ of the guarantee.
        adjacency : str
            "zero-out" or "replace": what may happen to one example.
        """
        if self.account is None:
            raise ParameterError(
                "which loader the batches come from is not known, and so no ε can be; call "
                "shoal.sgd.opacus.account(engine, loader) first. To choose the noise for an ε: noise_multiplier_for"
            )
        return self.account.epsilon(delta=delta, adjacency=adjacency)

    def get_optimizer_hook_fn(self, sample_rate: float) -> Callable[[DPOptimizer], None]:
        """Return what Opacus calls in every step, after the noise."""
        count = super().get_optimizer_hook_fn(sample_rate)
        self._hooks += 1
        number = self._hooks

        def hook_fn(optimizer: DPOptimizer) -> None:
            if self.account is not None and number != self._tied:
                raise ParameterError(
                    "make_private was called more than once, and the account is for another loader than that of this "
                    "optimizer; use one engine for each"
                )
            if self.account is not None:
                self.account.watched.check(optimizer)
            count(optimizer)
            if self.account is not None:
                self.account.counted_by = (optimizer, optimizer.step_hook)

        return hook_fn

    @property
    def epochs_begun(self) -> int:
        """How many epochs had begun when the last step was made, those of a checkpoint too."""
        return self.epochs + (0 if self.earlier is None else int(self.earlier["epochs"]))

    def state_dict(self, destination: dict[str, object] | None = None) -> dict[str, object]:
        """Return what `load_state_dict` takes: also the epochs that were begun, which the steps do not tell."""
        state: dict[str, object] = super().state_dict(destination)
        if self.account is not None:
            draws = self.account.draws
            state["drawn"] = {
                "draws": draws.to_dict(),
                "epochs": self.epochs_begun,
                "orders": sorted(draws.seen),
                "noise": sorted(self.account.watched.noise.seen),
            }
        else:
            state["drawn"] = self.earlier
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from a checkpoint; an epoch that was broken off counts, and the next one is another."""
        if self.account is not None:
            raise ParameterError("load a checkpoint before account(engine, loader), and before the first step")
        super().load_state_dict(state_dict)
        self.earlier = state_dict.get("drawn")
        if self.history and self.earlier is None:
            raise ParameterError("the checkpoint does not say how its steps were drawn; it was not written by shoal")

    def __len__(self) -> int:
        """Return how many steps were counted."""
        return sum(steps for _, _, steps in self.history)

    @classmethod
    def mechanism(cls) -> str:
        """Return the name by which Opacus finds it."""
        return MECHANISM


register_accountant(MECHANISM, StepAccountant, force=True)
