"""What is asked: n people, and what each of them runs."""

from dataclasses import dataclass

from shoal.randomizers import Categorical, Decomposition, Gaussian, Laplace, OneBitMean, RandomizedResponse, Randomizer

__all__ = ["Setting"]

_LARGEST = 700.0
"""Of ε₀: beyond it, likelihoods overflow."""


@dataclass(frozen=True)
class Setting:
    """The checked arguments of `amplify`, and what bounds ask of them.

    Attributes
    ----------
    randomizer : Randomizer or None
        What each person runs, where it is known.
    reports, local_epsilon, local_delta : int, float
        n, ε₀, δ₀; ε₀ is infinite for Gaussian noise.
    """

    randomizer: Randomizer | None
    reports: int
    local_epsilon: float
    local_delta: float

    @property
    def known(self) -> bool:
        """Whether all likelihoods of the randomizer are known."""
        if isinstance(self.randomizer, Gaussian):
            return True
        return isinstance(self.randomizer, (Categorical, Laplace, OneBitMean)) and self.local_epsilon <= _LARGEST

    @property
    def decomposition(self) -> Decomposition | None:
        """How the randomizer decomposes, where that is known."""
        if self.local_epsilon >= 600:
            return None
        if isinstance(self.randomizer, OneBitMean):
            return self.randomizer.response.decomposition
        if isinstance(self.randomizer, RandomizedResponse):
            return self.randomizer.decomposition
        return self.randomizer if isinstance(self.randomizer, Decomposition) else None

    @property
    def binary(self) -> bool:
        """Whether it is randomized response over two categories."""
        if isinstance(self.randomizer, OneBitMean):
            return True
        return isinstance(self.randomizer, RandomizedResponse) and self.randomizer.categories == 2
