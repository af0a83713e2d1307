"""A bound of the catalogue for one round of shuffled reports."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from shoal.amplification.setting import Setting
from shoal.catalogue import Theorem, rows_of
from shoal.privacy_profile import Profile

__all__ = ["BOUNDS", "ShufflingBound"]


@dataclass(frozen=True, kw_only=True, repr=False)
class ShufflingBound(Theorem):
    """A bound of the privacy of shuffled reports.

    Attributes
    ----------
    make : callable
        The function from a setting to the bound's profile.
    applies : callable, optional
        Whether it can be used for a setting with a randomizer. Without it the bound holds for any ε₀-DP randomizer.
    improves : str, optional
        The name of a bound that this one is never above. Its profile has a method `improves(delta)`, which returns
        whether it is below.
    """

    kind: ClassVar[str] = "shuffling"

    make: Callable[[Setting], Profile]
    applies: Callable[[Setting], bool] | None = None
    improves: str | None = None
    needs: str = "any ε₀-DP randomizer"
    range: str = "all n, ε₀ and δ"
    proof: str = "the paper"
    certified_by: str | None = "strong-clones"


BOUNDS = rows_of(ShufflingBound)
"""All of them by name, those for comparison only included."""
