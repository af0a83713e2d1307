"""Randomized response over k categories (k-RR), with the decomposition that the paper gives for it."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from shoal.arrays import BoolArray, IntArray
from shoal.estimation.design import Design
from shoal.mechanisms.categorical import Indexed, Supported
from shoal.mechanisms.coins import Coins
from shoal.mechanisms.mechanism import Reports
from shoal.pairs import BitRows
from shoal.pairs.decomposition import Decomposition
from shoal.pairs.likelihoods import Support, response
from shoal.pairs.registry import register
from shoal.rounding import slack


@register("randomized-response", "a category, the true one with weight e^ε₀", code=1, planned=1)
@dataclass(frozen=True, kw_only=True)
class RandomizedResponse(Indexed):
    """The mechanism that reports the true category with weight e^ε₀, and each other one with weight 1.

    Parameters
    ----------
    categories : int
        k ≥ 2.
    local_epsilon : float
        ε₀ > 0.

    Examples
    --------
    >>> mechanism = RandomizedResponse(categories=10, local_epsilon=2)
    >>> round(mechanism.truth_probability, 4)
    0.4509
    >>> reports = mechanism.randomize([3, 3, 3, 7])
    >>> mechanism.estimate(mechanism.aggregate(reports)).reports
    4
    """

    @cached_property
    def design(self) -> Design:
        """Every category supports itself."""
        return Design(outputs=self.categories, supporting=1, common=0)

    @property
    def truth_probability(self) -> float:
        """The probability e^ε₀/(e^ε₀ + k − 1) of reporting the truth."""
        return 1 / (1 + (self.categories - 1) * math.exp(-self.local_epsilon))

    @property
    def decomposition(self) -> Decomposition:
        """What Theorem 4.1 needs, by the proof of the corollary for k-RR; both probabilities rounded to the safe side.

        q = (e^ε₀ − 1)/(e^ε₀ + k − 1) and p = k/((k + 1)(e^ε₀ + k − 1)).
        """
        k = self.categories
        small = math.exp(-self.local_epsilon)
        weight = 1 + (k - 1) * small  # (e^ε₀ + k − 1)·e^−ε₀
        own = -math.expm1(-self.local_epsilon) / weight * (1 + slack(8))
        blanket = k * small / ((k + 1) * weight) * (1 - slack(32))
        return Decomposition(
            blanket_probability=blanket, own_probability=min(own, 1.0), local_epsilon=self.local_epsilon
        )

    @property
    def blanket_row(self) -> tuple[str, int]:
        """It is k-ary randomized response, with k categories."""
        return "response", self.categories

    @property
    def bit(self) -> BitRows | None:
        """The rows of one bit, with two categories."""
        return BitRows.response(self.local_epsilon) if self.categories == 2 else None

    @property
    def support(self) -> tuple[Support, ...]:
        """Every output supports the input of the same name."""
        return (response(self.categories, self.local_epsilon),)

    def own(self, values: Reports, uniform: Reports, coins: Coins) -> Reports:
        """Return the values themselves."""
        return values

    def supports(self, reports: Reports, values: ArrayLike) -> BoolArray:
        """Return whether each report is the category next to it."""
        return np.equal(reports, values)

    def supported(self, cells: IntArray, reports: int) -> Supported:
        """Return the counts: a report supports the category that it names."""
        return cells.astype(np.float64), np.full(1, float(reports))
