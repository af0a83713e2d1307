"""What parameters contribute to a clipped sum."""

from collections.abc import Callable
from typing import NamedTuple

from torch import Tensor

__all__ = ["Share"]


class Share(NamedTuple):
    """What parameters contribute: the squared norm of every example, and how to add up the examples by weight.

    `squares` has one number an example, or a row whose sum it is. `into` takes the weights, and puts the sums into the
    memory of every parameter that is named, but for what it returns: that is still to be added to them.
    """

    names: tuple[str, ...]
    squares: Tensor
    into: Callable[..., list[tuple[Tensor, Tensor]] | None]
