"""The test that a model mixes no examples: some of a batch are exchanged, and nothing may change for the others."""

import math

import torch
from torch import Tensor

__all__ = ["MIXED", "kept_rows", "replaced", "same_rows", "same_sums"]

_RELATIVE, _ABSOLUTE = 1e-4, 1e-6

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

    Parameters
    ----------
    tensors : tuple of Tensor
        One row for each example.
    kept : Tensor
        Which rows stay.
    generator : torch.Generator
        Of random numbers, on the processor.
    new : bool
        Whether the others are made up, within the range of what is there for whole numbers and targets. Otherwise they
        are copies of kept rows.
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
        low, high = int(tensor.min()), int(tensor.max())
        low = min(low, 0) if low == high else low  # all the same: a smaller number is likely to be allowed
        return torch.randint(low, high + 1, tensor.shape, generator=generator).to(tensor)
    finite = tensor[torch.isfinite(tensor)]
    if finite.numel() == 0:
        return torch.randn(tensor.shape, generator=generator).to(tensor)
    if target:  # a probability stays one
        least, most = finite.min(), finite.max()
        return least + (most - least) * torch.rand(tensor.shape, generator=generator).to(tensor)
    scale = finite.abs().max()
    noise = torch.randn(tensor.shape, generator=generator).to(tensor)
    return torch.where(torch.isfinite(copies), copies, torch.zeros_like(copies)) + noise * (scale if scale > 0 else 1)


def same_rows(first: Tensor, second: Tensor, kept: Tensor) -> bool:
    """Tell whether the kept rows of two tensors are the same, but for rounding."""
    before, after = (each.detach()[kept.to(each.device)] for each in (first, second))
    finite = before[torch.isfinite(before)].abs()
    least = _ABSOLUTE * float(finite.max()) if finite.numel() else _ABSOLUTE
    return torch.allclose(before, after, rtol=_RELATIVE, atol=max(least, 1e-30), equal_nan=True)


def same_sums(first: list[Tensor], second: list[Tensor], squares: Tensor, kept: Tensor) -> bool:
    """Tell whether two sums of the gradients of kept rows are the same, but for rounding next to all of their norms."""
    apart = math.sqrt(sum(float((one - two).square().sum()) for one, two in zip(first, second, strict=True)))
    whole = math.sqrt(float(squares[kept.to(squares.device)].sum()))
    return not apart > _RELATIVE * math.sqrt(len(squares)) * whole  # what is not finite is refused elsewhere
