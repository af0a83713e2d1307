"""The design of a mechanism: which outputs support which categories, in numbers."""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from shoal.arrays import Array

_LEAST = 1e-6
"""Designs for a smaller ε₀ are those for this one."""


@dataclass(frozen=True)
class Moments:
    """How often a report supports a given category x, and how often it falls into the block of x."""

    # own, same, other: These two probabilities for reports of x itself, of another category in
    # its block, of the rest
    own: tuple[float, float]
    same: tuple[float, float]
    other: tuple[float, float]
    # κ, to weigh the block with: the mean of Z = [supports x] − κ·[in the block of x] is the
    # same for all people who do not hold x
    overlap: float

    def mean(self, probabilities: tuple[float, float]) -> float:
        """Return the mean of Z of reports that support x, and fall into its block, with these probabilities."""
        return probabilities[0] - self.overlap * probabilities[1]

    def spread(self, probabilities: tuple[float, float]) -> float:
        """Return the variance of Z of such reports."""
        support, block = probabilities
        square = support * (1 - self.overlap) ** 2 + (block - support) * self.overlap**2
        return square - self.mean(probabilities) ** 2

    def cumulants(self, probabilities: tuple[float, float]) -> Array:
        """Return the second, third and fourth cumulant of Z."""
        support, block = probabilities
        values = np.array([1 - self.overlap, -self.overlap, 0.0])
        weights = np.array([support, block - support, 1 - block])
        apart = values - self.mean(probabilities)
        second, third, fourth = (float(weights @ apart**power) for power in (2, 3, 4))
        return np.array([second, third, fourth - 3 * second**2])

    @property
    def base(self) -> float:
        """The mean of Z for people who do not hold x."""
        return self.mean(self.other)

    @property
    def scale(self) -> float:
        """By how much it is larger for those who do."""
        return self.mean(self.own) - self.base

    def line(self, blocks: Array | float) -> tuple[Array, float]:
        """Return a and b: one report adds a + b·f to the variance of an estimate of f, whose block has frequency F."""
        square = self.scale**2
        own = self.spread(self.own) / square
        same = self.spread(self.same) / square
        other = self.spread(self.other) / square
        return other + np.asarray(blocks) * (same - other), own - same

    @property
    def inside(self) -> float:
        """By how much a report is likelier to fall into the block if it is of somebody there."""
        return self.own[1] - self.other[1]

    def frequencies(self, means: Array) -> Array:
        """Return the unbiased estimates of frequencies from the observed means of Z."""
        return (means - self.base) / self.scale

    def block_share(self, share: Array) -> Array:
        """Return the estimated share of people in each block, from the share of reports that fall into it."""
        return np.clip((share - self.other[1]) / self.inside, 0, 1)


@dataclass(frozen=True)
class Design:
    """M outputs in B blocks of equal size; s of its own block support a category, c of them another one there as well.

    A report is with probability λ one of the s, else one of the M, all equally likely (docs/theory/frequency.md).
    """

    outputs: int  # outputs, supporting, common: M, s and c
    supporting: int
    common: int
    blocks: int = 1  # B

    @property
    def share(self) -> Fraction:
        """Of all outputs, s/M support a category."""
        return Fraction(self.supporting, self.outputs)

    def moments(self, truth: float) -> Moments:
        """Return what reports look like if one in 1/λ tells the truth."""
        share = self.supporting / self.outputs
        overlap = self.common / self.supporting
        noise = 1 - truth
        return Moments(
            own=(truth + noise * share, truth + noise / self.blocks),
            same=(truth * overlap + noise * share, truth + noise / self.blocks),
            other=(noise * share, noise / self.blocks),
            overlap=overlap,
        )

    def truth(self, local_epsilon: float) -> float:
        """Return λ for this ε₀: 1 + λ/((1 − λ)·s/M) = e^ε₀."""
        share = self.supporting / self.outputs
        small = math.exp(-local_epsilon)
        own = -math.expm1(-local_epsilon) * share
        return own / (own + small)

    def error(self, local_epsilon: float, categories: int) -> float:
        """Return n times the expected squared error of all frequencies together, if all are the same."""
        return self.error_at(self.truth(max(local_epsilon, _LEAST)), categories)

    def error_at(self, truth: float, categories: int) -> float:
        """Return the same for this λ."""
        constant, slope = self.moments(truth).line(1 / self.blocks)
        return categories * float(constant) + slope

    @property
    def least_common(self) -> int:
        """How many outputs support both of two categories that are the easiest to tell apart.

        They are in different blocks if there are several. No two share fewer outputs (docs/theory/frequency.md,
        statement 2).
        """
        return self.common if self.blocks == 1 else 0

    def probabilities(self) -> tuple[float, float, float]:
        """Return how likely a uniform output supports neither, the first only, both of two such categories."""
        common = self.least_common
        neither = self.outputs - 2 * self.supporting + common
        return neither / self.outputs, (self.supporting - common) / self.outputs, common / self.outputs
