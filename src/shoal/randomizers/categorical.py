"""What the mechanisms for one of k categories have in common."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

from shoal.checks import positive, whole
from shoal.randomizers.likelihoods import Likelihoods
from shoal.randomizers.support import Support

__all__ = ["Categorical"]


@dataclass(frozen=True, kw_only=True)
class Categorical(ABC):
    """A randomizer of one of k categories, with every likelihood known.

    Parameters
    ----------
    categories : k ≥ 2.
    local_epsilon : ε₀ > 0.
    """

    categories: int
    local_epsilon: float

    def __post_init__(self) -> None:
        """Check the arguments."""
        object.__setattr__(self, "categories", whole(categories=self.categories, least=2))
        object.__setattr__(self, "local_epsilon", positive(local_epsilon=self.local_epsilon))

    @property
    @abstractmethod
    def _support(self) -> Support:
        """How its outputs support its inputs."""

    @property
    def blanket(self) -> tuple[Likelihoods, ...]:
        """What one report tells about two categories, beside what the reports of all categories have in common.

        One for each essentially different pair of categories: what holds for all of them, holds.
        """
        return self._support.blanket

    @property
    def homogeneous(self) -> tuple[Likelihoods, ...]:
        """What one report tells about two categories, where all others hold one and the same.

        Others on a third category come first, where there is one. Each of them is a dataset that may occur.
        """
        return self._support.homogeneous
