"""The test that a model mixes no examples: some of a batch are exchanged, and nothing may change for the others.

The states of all random generators are saved and restored for it, so that the same numbers are drawn again.
"""

import math
import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor, nn

from shoal.errors import ParameterError

_RELATIVE = 1e-4
_ABSOLUTE = 1e-6
MIXED = (
    "the loss of an example, or its gradient, depends on the other examples of its batch, so no gradient is its own; "
    "remove what mixes examples: statistics of the batch, or operations along its first axis"
)


def kept_rows(size: int, generator: torch.Generator) -> Tensor:
    """Return which of the examples stay: about half of them, never all and never none."""
    order = torch.randperm(size, generator=generator)
    count = int(torch.randint(1, max(2, (size + 1) // 2 + 1), (), generator=generator))
    kept = torch.zeros(size, dtype=torch.bool)
    kept[order[: min(count, size - 1)]] = True
    return kept


def replaced(tensors: tuple[Tensor, ...], kept: Tensor, generator: torch.Generator, *, new: bool) -> list[Tensor]:
    """Return the tensors of a batch, the target last, with all rows but the kept ones replaced.

    Tensors have one row for each example, and the generator is of the CPU. With `new`, the
    other rows are made up, within the range of what is there for integers and targets;
    otherwise they are copies of kept rows.
    """
    indices = torch.nonzero(kept).flatten()
    others = indices[torch.randint(len(indices), (len(kept),), generator=generator)]
    results = []
    for number, tensor in enumerate(tensors):
        copies = tensor[others.to(tensor.device)]
        if new:
            target = number == len(tensors) - 1
            copies = _made_up(tensor, copies, generator, target=target)
        where = kept.to(tensor.device).view(-1, *(1 for _ in tensor.shape[1:]))
        results.append(torch.where(where, tensor, copies))
    return results


def _made_up(tensor: Tensor, copies: Tensor, generator: torch.Generator, *, target: bool) -> Tensor:
    if tensor.dtype is torch.bool:
        return torch.randint(2, tensor.shape, generator=generator).bool().to(tensor.device)
    if tensor.is_complex() or tensor.numel() == 0:
        return copies
    if not tensor.is_floating_point():
        low = int(tensor.min())
        high = int(tensor.max())
        low = min(low, 0) if low == high else low  # all the same: a smaller number is likely to be allowed
        return torch.randint(low, high + 1, tensor.shape, generator=generator).to(tensor)
    finite = tensor[torch.isfinite(tensor)]
    if finite.numel() == 0:
        return _normal(tensor, generator)
    if target:  # a probability stays one
        least = finite.min()
        most = finite.max()
        return least + (most - least) * torch.rand(tensor.shape, generator=generator).to(tensor)
    scale = finite.abs().max()
    noise = _normal(tensor, generator)
    whole = torch.where(torch.isfinite(copies), copies, torch.zeros_like(copies))
    return whole + noise * (scale if scale > 0 else 1)


def _normal(tensor: Tensor, generator: torch.Generator) -> Tensor:
    """Return normal numbers of the shape of a tensor, drawn where it is."""
    if tensor.is_cuda:
        seed = int(torch.randint(1 << 62, (), generator=generator))
        generator = torch.Generator(tensor.device).manual_seed(seed)
    return torch.randn(tensor.shape, generator=generator, device=generator.device).to(tensor)


def same_rows(first: Tensor, second: Tensor, kept: Tensor) -> bool:
    """Tell whether the kept rows of two tensors are the same, but for rounding."""
    where = kept.to(first.device).view(-1, *(1 for _ in first.shape[1:]))
    before, after = (torch.where(where, each.detach(), 0) for each in (first, second))
    # Nothing but the answer is waited for.
    largest = torch.where(torch.isfinite(before), before.abs(), 0).max()
    least = largest.mul(_ABSOLUTE).clamp_min(1e-30)
    close = torch.isfinite(after) & ((before - after).abs() <= least + _RELATIVE * after.abs())
    return bool((close | (before == after) | (before.isnan() & after.isnan())).all())


def same_sums(first: list[Tensor], second: list[Tensor], squares: Tensor, kept: Tensor) -> bool:
    """Tell whether two sums of the gradients of kept rows are the same, but for rounding next to all of their norms."""
    lengths = torch._foreach_norm(torch._foreach_sub(first, second))
    whole = torch.where(kept.to(squares.device), squares, 0).sum().sqrt()
    between = torch.stack(list(lengths)).norm().to(whole.dtype)
    apart, norm = torch.stack((between, whole)).tolist()
    return not apart > _RELATIVE * math.sqrt(len(squares)) * norm  # what is not finite is refused elsewhere


@contextmanager
def unchanged(model: nn.Module) -> Iterator[None]:
    """Refuse a model that changes its buffers, and put them back."""
    before = [(name, each, each._version, each.clone()) for name, each in model.named_buffers()]
    yield
    now = dict(model.named_buffers())
    changed = []
    for name, buffer, version, value in before:
        if now[name] is not buffer or (buffer._version != version and not torch.equal(buffer, value)):
            changed.append(name)
            now[name].data.copy_(value)
    if changed:
        raise ParameterError(
            f"the model changes {', '.join(changed)} as it runs, without noise; use layers that keep no statistics"
        )


class Randomness:
    """The state of the random numbers of torch, numpy and Python at one moment.

    With `torch_alone`, numpy and Python are left out, which takes a fiftieth of the time.
    """

    def __init__(self, device: torch.device, *, torch_alone: bool = False) -> None:
        self._device = device
        self._alone = torch_alone
        self._states = self._now()

    def _now(self) -> tuple[object, ...]:
        device = torch.cuda.get_rng_state(self._device) if self._device.type == "cuda" else None
        if self._alone:
            return torch.get_rng_state(), device
        return torch.get_rng_state(), device, np.random.get_state(), random.getstate()  # noqa: NPY002

    def _go_to(self, states: tuple[object, ...]) -> None:
        processor, device, *others = states
        torch.set_rng_state(processor)  # type: ignore[arg-type]
        if device is not None:
            torch.cuda.set_rng_state(device, self._device)  # type: ignore[arg-type]
        if others:
            np.random.set_state(others[0])  # type: ignore[arg-type] # noqa: NPY002
            random.setstate(others[1])  # type: ignore[arg-type]

    @contextmanager
    def again(self) -> Iterator[None]:
        """Draw from that moment on, and afterwards as if nothing had been drawn."""
        before = self._now()
        self._go_to(self._states)
        try:
            yield
        finally:
            self._go_to(before)
