"""Clipped sums of small models replayed on a graphics processor: all that is launched, by one launch.

A model that is computed faster than it is launched waits for the central processor. What it does can be recorded once
(a CUDA graph) and replayed, if it is the same every time. That is known of chains of torch's own layers that have no
state, no random numbers and no hooks, at the same places in memory, for examples of the same shapes.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from shoal.sgd.torch.book_keeping import Part

__all__ = ["Report", "StepGraph", "Sums"]

_PLAIN = (
    nn.AdaptiveAvgPool2d,
    nn.AvgPool2d,
    nn.Conv1d,
    nn.Conv2d,
    nn.Flatten,
    nn.GELU,
    nn.GroupNorm,
    nn.Identity,
    nn.LayerNorm,
    nn.Linear,
    nn.MaxPool2d,
    nn.ReLU,
    nn.Sequential,
    nn.Sigmoid,
    nn.SiLU,
    nn.Tanh,
)
"""Layers whose output depends on their input and parameters alone."""
_LOSSES = (nn.BCEWithLogitsLoss, nn.CrossEntropyLoss, nn.L1Loss, nn.MSELoss, nn.NLLLoss)
_MOST_NUMBERS = 1 << 22
"""Larger inputs, or more parameters, keep a device busy by themselves."""
_OFTEN = 3
"""A shape is recorded when it is seen so many times."""
_MOST_GRAPHS = 12
_MOST_SHAPES = 64
"""Batches of more shapes would be recorded again and again."""


Report = Tensor | tuple[Tensor, Tensor]
"""The sums of all squared norms and of all losses; or a table of two columns whose sums they are."""


class Sums(NamedTuple):
    """Gradients of examples, their weighted sums, and the sums of all squared norms and losses."""

    part: Part
    sums: list[Tensor]
    report: Report


class _Recorded(NamedTuple):
    graph: Any
    tensors: tuple[Tensor, ...]
    result: Sums


class StepGraph:
    """Records and replays the clipped sums of a model, where that is safe.

    Parameters
    ----------
    model : nn.Module
        The model.
    loss : callable
        Its loss, as the user gave it.
    compute : callable
        Returns the sums for inputs, the target last.
    """

    def __init__(self, model: nn.Module, loss: object, compute: Callable[[tuple[Tensor, ...]], Sums]) -> None:
        self._model, self._compute = model, compute
        small = sum(parameter.numel() for parameter in model.parameters()) <= _MOST_NUMBERS
        self._safe = small and type(loss) in _LOSSES and not _hooked(loss) and self._plain()
        self._seen: dict[tuple[object, ...], int] = {}
        self._recorded: dict[tuple[object, ...], _Recorded] = {}

    def _plain(self) -> bool:
        return type(self._model) is nn.Sequential and all(
            type(module) in _PLAIN and "forward" not in module.__dict__ and not _hooked(module)
            for module in self._model.modules()
        )

    def sums(self, tensors: tuple[Tensor, ...]) -> Sums | None:
        """Return the sums for inputs, the target last, or None; the next call overwrites them."""
        if not (self._safe and tensors[0].is_cuda and tensors[0].numel() <= _MOST_NUMBERS and self._plain()):
            return None
        key = self._key(tensors)
        if key not in self._recorded:
            self._seen[key] = self._seen.get(key, 0) + 1
            if len(self._seen) > _MOST_SHAPES:
                self._safe = False  # batches of all sizes: hardly any would be replayed
            if self._seen[key] < _OFTEN:
                return None
            if len(self._recorded) >= _MOST_GRAPHS:
                self._recorded.clear()
            self._recorded[key] = self._record(tensors)
        recorded = self._recorded[key]
        for own, given in zip(recorded.tensors, tensors, strict=True):
            own.copy_(given)
        recorded.graph.replay()
        return recorded.result

    def _key(self, tensors: tuple[Tensor, ...]) -> tuple[object, ...]:
        """Return all that must be the same for what was recorded to be what would be computed."""
        kind = tensors[0].device.type
        return (
            *((each.shape, each.dtype, each.device) for each in tensors),
            *(id(module) for module in self._model.modules()),
            *((each.data_ptr(), each.requires_grad) for each in self._model.parameters()),
            torch.is_autocast_enabled(kind) and torch.get_autocast_dtype(kind),
            torch.get_float32_matmul_precision(),
            torch.backends.cudnn.allow_tf32,
            torch.are_deterministic_algorithms_enabled(),
        )

    def _record(self, tensors: tuple[Tensor, ...]) -> _Recorded:
        own = tuple(each.clone() for each in tensors)
        with torch.cuda.device(tensors[0].device):
            stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                self._compute(own)
            torch.cuda.current_stream().wait_stream(stream)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, stream=stream):
                result = self._compute(own)
        return _Recorded(graph, own, result)


def _hooked(module: Any) -> bool:
    """Say whether something else is done when a module is called."""
    names = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    return any(getattr(module, name, None) for name in names)
