"""Checks of every step of an optimizer of Opacus: fresh noise, for the norm that it clips to."""

from typing import Any

import torch
from opacus.grad_sample.grad_sample_module_fast_gradient_clipping import (
    GradSampleHooksFastGradientClipping,
    GradSampleModuleFastGradientClipping,
)
from opacus.optimizers import DPOptimizer, DPOptimizerFastGradientClipping, DPPerLayerOptimizer

from shoal.errors import ParameterError
from shoal.sgd.opacus.generator_states import GeneratorStates

__all__ = ["WatchedSteps", "check_optimizer"]

_KNOWN = (DPOptimizer, DPOptimizerFastGradientClipping, DPPerLayerOptimizer)
"""Each adds noise of deviation noise_multiplier·max_grad_norm to a sum of gradients of at most
that norm, if it clips to `max_grad_norm`, which `WatchedSteps` checks. All others are refused."""
_GHOST_MODULES = (GradSampleModuleFastGradientClipping, GradSampleHooksFastGradientClipping)


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
            self._module, self._clipped = module, {float(module.max_grad_norm)}

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
