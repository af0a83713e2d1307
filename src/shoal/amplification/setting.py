"""What is asked: n people, and what each of them runs."""

from dataclasses import dataclass
from typing import Any

from shoal.checks import non_negative, probability, whole
from shoal.errors import ParameterError
from shoal.randomizers import Categorical, Decomposition, Gaussian, Laplace, OneBitMean, RandomizedResponse, Randomizer

__all__ = ["Setting"]

_LARGEST = 700.0
"""Of ε₀: beyond it, likelihoods overflow."""


@dataclass(frozen=True)
class Setting:
    """The checked arguments of `amplify`, and what the rows of the catalogue ask of them.

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

    @classmethod
    def checked(cls, randomizer: Any, *, reports: Any, local_epsilon: Any, local_delta: Any) -> "Setting":
        """Return the setting, or say what is wrong with it."""
        if (randomizer is None) == (local_epsilon is None):
            raise ParameterError(
                "give either a randomizer or local_epsilon: amplify(local_epsilon=1, reports=10_000), or "
                "amplify(RandomizedResponse(categories=10, local_epsilon=1), reports=10_000)"
            )
        if randomizer is not None and not isinstance(randomizer, Randomizer):
            raise ParameterError(
                f"randomizer must be a description such as RandomizedResponse(categories=10, local_epsilon=1), "
                f"got {randomizer!r}"
            )
        delta = probability(local_delta=local_delta, zero=True)
        if randomizer is not None and delta:
            raise ParameterError(
                f"local_delta must be 0 with a {type(randomizer).__name__}, which says itself what it is; "
                f"got {local_delta!r}"
            )
        epsilon = randomizer.local_epsilon if randomizer is not None else non_negative(local_epsilon=local_epsilon)
        return cls(randomizer, whole(reports=reports), epsilon, delta)

    @property
    def pure(self) -> bool:
        """Whether what each person runs is ε₀-DP."""
        return not self.local_delta and not isinstance(self.randomizer, Gaussian)

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
