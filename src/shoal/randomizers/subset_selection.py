"""Subset selection: a random set of categories, more likely one that contains the truth."""

import math
from dataclasses import dataclass

from shoal.checks import whole
from shoal.errors import ParameterError
from shoal.randomizers.categorical import Categorical
from shoal.randomizers.support import Support

__all__ = ["SubsetSelection"]


@dataclass(frozen=True, kw_only=True)
class SubsetSelection(Categorical):
    """The mechanism that reports a set of d categories, e^ε₀ times as often one that contains the true category.

    Ye and Barg, IEEE Transactions on Information Theory 2018; d = 1 is randomized response.

    Parameters
    ----------
    categories : k ≥ 2.
    local_epsilon : ε₀ > 0.
    size : d, from 1 to k − 1; if it is not given, ⌈k/(e^ε₀ + 1)⌉, about the best for frequencies.

    Examples
    --------
    >>> SubsetSelection(categories=100, local_epsilon=2).subset_size
    12
    """

    size: int | None = None

    def __post_init__(self) -> None:
        """Check the arguments."""
        super().__post_init__()
        if self.size is not None:
            size = whole(size=self.size)
            if size >= self.categories:
                raise ParameterError(
                    f"size must be less than categories={self.categories}, got {size}; "
                    "the set of all categories says nothing"
                )
            object.__setattr__(self, "size", size)

    @property
    def subset_size(self) -> int:
        """How many categories are reported, d."""
        if self.size is not None:
            return self.size
        small = math.exp(-self.local_epsilon)
        return min(max(1, math.ceil(self.categories * small / (1 + small))), self.categories - 1)

    @property
    def _support(self) -> Support:
        """Sets drawn uniformly; none of them has every category in it."""
        inside, outside, every = self.subset_size, self.categories - self.subset_size, self.categories
        triples: tuple[tuple[float, float, float, float], ...] = ()
        pairs = every * (every - 1)
        if every >= 3:
            threes = pairs * (every - 2)
            triples = (
                (
                    outside * (outside - 1) * (outside - 2) / threes,
                    inside * outside * (outside - 1) / threes,
                    inside * (inside - 1) * outside / threes,
                    inside * (inside - 1) * (inside - 2) / threes,
                ),
            )
        return Support(
            self.local_epsilon,
            outside * (outside - 1) / pairs,
            inside * outside / pairs,
            inside * (inside - 1) / pairs,
            triples=triples,
        )
