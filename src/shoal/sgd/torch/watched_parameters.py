"""The parameters of a private training: as `make_private` saw them, moved by noised gradients alone."""

from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

from torch import Tensor, nn
from torch.optim import Optimizer

from shoal.errors import ParameterError

__all__ = ["WatchedParameters"]

_HOOKS: WeakKeyDictionary[Optimizer, Any] = WeakKeyDictionary()
"""The hook of each optimizer that trains privately; a later `make_private` replaces it."""
_ADVICE = (
    "Call make_private again with the model and an optimizer as they are to be. That is another "
    "training with its own guarantee, and what was spent until now is spent"
)


class WatchedParameters:
    """The modules and parameters of a model, and the only way for its optimizer to step.

    From here on `optimizer.step()` is refused outside of `step`: it would apply gradients that
    are neither clipped nor noised.

    Parameters
    ----------
    model : nn.Module
        The model that is trained.
    optimizer : Optimizer
        The optimizer, over parameters of the model.
    trained : sequence of nn.Parameter
        The trained parameters.
    """

    def __init__(self, model: nn.Module, optimizer: Optimizer, trained: Sequence[nn.Parameter]) -> None:
        self._model, self._optimizer, self._trained = model, optimizer, trained
        self._known, self._known_held = _members(model), _held(optimizer)
        self._marks = _marks(model)
        self._stepping = False
        if earlier := _HOOKS.pop(optimizer, None):
            earlier.remove()
        _HOOKS[optimizer] = optimizer.register_step_pre_hook(self._refuse)

    def check(self) -> None:
        """Refuse modules or parameters that were frozen, unfrozen, replaced, added or removed."""
        if _marks(self._model) != self._marks:
            members = _members(self._model)
            for name in self._known | members:
                if change := _change(self._known.get(name), members.get(name)):
                    raise ParameterError(f"{name} was {change} after make_private. {_ADVICE}")
        held = _held(self._optimizer)
        if list(map(id, held)) != list(map(id, self._known_held)):
            raise ParameterError(
                f"the optimizer has {len(held):,} parameters, and had {len(self._known_held):,}, or "
                f"the same in another order, at make_private. {_ADVICE}"
            )

    def clear(self) -> None:
        """Drop every gradient that the optimizer holds, including gradients of frozen parameters."""
        for parameter in _held(self._optimizer):
            parameter.grad = None

    def step(self, gradients: Sequence[Tensor]) -> None:
        """Let the optimizer step by these gradients of the trained parameters, and by no others."""
        self.clear()
        for parameter, gradient in zip(self._trained, gradients, strict=True):
            parameter.grad = gradient
        self._stepping = True
        try:
            self._optimizer.step()
        finally:
            self._stepping = False

    def _refuse(self, *_: Any) -> None:
        """Refuse a step that this training does not make; torch calls it before every step."""
        if not self._stepping:
            raise ParameterError(
                "optimizer.step() was called outside of training.step(batch), which calls it with "
                "noised gradients. Leave the call out; to train this model without a guarantee, or "
                "by another make_private, use another optimizer"
            )


def _marks(model: nn.Module) -> list[int]:
    """Return numbers that change with `_members`, in a third of the time: no names are made."""
    marks = []
    for module in model.modules():
        marks.append(id(module))
        for parameter in module._parameters.values():
            if parameter is not None:
                marks += (id(parameter), parameter.requires_grad)
    return marks


def _members(model: nn.Module) -> dict[str, tuple[object, bool]]:
    """Return every module and parameter by a name, and whether it is trained."""
    members: dict[str, tuple[object, bool]] = {
        f"the module {name or 'itself'}": (module, False) for name, module in model.named_modules()
    }
    for name, parameter in model.named_parameters():
        members[f"the parameter {name}"] = (parameter, parameter.requires_grad)
    return members


def _held(optimizer: Optimizer) -> list[Tensor]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def _change(before: tuple[object, bool] | None, now: tuple[object, bool] | None) -> str:
    """Return the change of a module or a parameter as a word, empty if there is none."""
    if before is None:
        return "added"
    if now is None:
        return "removed"
    if before[0] is not now[0]:
        return "replaced by another (by load_state_dict(assign=True), or an assignment)"
    return "" if before[1] == now[1] else "frozen" if before[1] else "unfrozen"
