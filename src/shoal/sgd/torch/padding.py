"""Batches that are padded to few sizes, so that a graphics processor can do again what it has done before.

Where every batch has a size of its own, libraries choose and compile functions anew, memory falls into pieces, and
nothing recorded can be replayed. So batches are filled up to sizes that are public: b, what a batch is expected to
have, and steps of about √b from it, which is about the deviation of a batch's size. What they are filled with are
copies of an example, whose weight is zero.
"""

import torch
from torch import Tensor

__all__ = ["padded", "public_size", "rows_of", "zeroed"]


def public_size(size: int, expected: int) -> int:
    """Return the least size that is not smaller, among those that differ from what is expected by whole steps.

    Parameters
    ----------
    size : int
        How many examples there are.
    expected : int
        How many examples a batch is expected to have: b.

    Examples
    --------
    >>> [public_size(size, 1000) for size in (1, 967, 968, 969, 1000, 1001, 1400)]
    [8, 968, 968, 1000, 1000, 1032, 1416]
    """
    step = 1 << ((expected - 1).bit_length() + 1) // 2
    return size + (expected - size) % step


def padded(tensors: tuple[Tensor, ...], expected: int) -> tuple[Tensor, ...]:
    """Return tensors with copies of their first row behind the others, of a public size."""
    size = len(tensors[0])
    more = public_size(size, expected) - size
    if not more:
        return tensors
    return tuple(torch.cat((each, each[:1].expand(more, *each.shape[1:]))) for each in tensors)


def rows_of(tensors: tuple[Tensor, ...], indices: Tensor) -> tuple[tuple[Tensor, ...], Tensor]:
    """Return these rows of the inputs, and of the target, which comes last."""
    *inputs, target = (tensor[indices.to(tensor.device)] for tensor in tensors)
    return tuple(inputs), target


def zeroed(value: Tensor, rows: Tensor) -> Tensor:
    """Return an input with zeros in these rows; whole numbers stay, as zero may not be allowed."""
    if not value.is_floating_point():
        return value
    return torch.where(rows.to(value.device).view(-1, *(1 for _ in value.shape[1:])), 0, value)
