"""Reports of one bit: the exact worst case over all datasets (Theorem O, docs/theory/one-bit.md).

Where its evaluation is not close, δ is the lesser of its upper end and the blanket (docs/theory/blanket.md).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from shoal.amplification.setting import LARGEST_LOCAL_EPSILON, Setting, ShufflingBound, has_bit
from shoal.assumptions import FIXED, ONE_BIT
from shoal.catalogue import register
from shoal.checks import SMALLEST_DELTA
from shoal.errors import ParameterError
from shoal.numerics.bit_count import BitCount, log_ceiling, worst_count
from shoal.numerics.profile_grid import DeltaGrid, Mesh, each, grid_of
from shoal.numerics.renyi import ProfileIntegral, divergences
from shoal.pairs import BitRows, ClonePair, LikelihoodPair
from shoal.pairs.integer_likelihoods import IntegerLikelihoods
from shoal.pairs.likelihoods import Likelihoods
from shoal.rounding import slack
from shoal.searches import greatest_unsafe, smallest_safe

if TYPE_CHECKING:
    from shoal.proofs.claim import Claim

_TOLERANCE = 1e-8
"""How far apart, relatively, lower and upper ends of δ may be without another look."""
_GRID_TOLERANCE = 1e-5
_FEW = 256
"""With so few reports, one ε takes less than a millisecond."""
_WIDE = 10
"""Ends farther apart than this many times the tolerance are compared with the blanket."""
_MOST_EXCESS = 1e15
_MOST_REPORTS = 1 << 46
"""Of e^ε − 1 and of n: beyond, the blanket is the upper end, and all others on one value the lower."""
_STEEPEST = 34.0
"""Of ε₀: beyond, e^ε − 1 is larger than that, and the Rényi divergence is that of the strong clones."""
_PAST = 1e-9
"""The relative distance past its estimate of ε at which the search looks: less would not end earlier."""


@dataclass(frozen=True)
class OneBitProfile:
    """The largest δ over all datasets of n reports of one bit, whose extreme inputs are `rows`; zero from ε₀ on."""

    reports: int
    rows: BitRows
    local_epsilon: float

    @property
    def costly(self) -> bool:
        """Whether one ε takes long: with few others, every dataset is looked at in no time."""
        return self.reports > _FEW

    def ends(self, epsilon: float, *, tolerance: float = _TOLERANCE) -> tuple[float, float]:
        """Return a lower and an upper bound of δ(ε)."""
        if epsilon >= self.local_epsilon:
            return 0.0, 0.0
        alone = max((count.gain for count in self.rows.counts(1, epsilon)), default=0.0)
        if self.reports == 1:
            return alone * (1 - slack(32)), alone * (1 + slack(32))
        lower = upper = 0.0
        if math.expm1(epsilon) > _MOST_EXCESS or self.reports > _MOST_REPORTS:
            upper = math.inf
            lower = max(
                LikelihoodPair(self.reports, way).delta_bracket(epsilon, tolerance=_GRID_TOLERANCE)[0]
                for way in self._ways
            )
        else:
            for count in self.rows.counts(self.reports, epsilon):
                worst = worst_count(count, tolerance=tolerance)
                # v₀(0), which has a closed form, is as good as all where hardly anybody hides the victim.
                zero = math.log1p(-count.low) if count.low < 0.5 else math.log(count.not_low)
                exponent = count.others * zero
                nobody = count.gain * math.exp(exponent) * (1 - slack(128) * (1 - exponent))
                lower = max(lower, worst.lower, nobody)
                upper = max(upper, worst.upper)
        if not upper * (1 - _WIDE * tolerance) <= lower:
            upper = min(upper, self._blanket(epsilon))
        upper = min(max(upper, SMALLEST_DELTA), alone * (1 + slack(32)))
        return (lower if lower > SMALLEST_DELTA else 0.0), upper

    def _blanket(self, epsilon: float) -> float:
        """Return the upper bound of δ(ε) of the blanket of the two extreme inputs, in both directions."""
        known = self.rows.blanket
        ways = (known,) if known.symmetric else (known, known.swapped)
        return max(LikelihoodPair(self.reports, way).delta_bracket(epsilon)[1] for way in ways)

    def delta(self, epsilon: float) -> float:
        """Return δ(ε), rounded up."""
        return self.ends(epsilon)[1]

    def epsilon(self, delta: float) -> float:
        """Return ε(δ), rounded up: the upper bound of δ at the answer is at most δ."""
        most = self.local_epsilon
        if delta < SMALLEST_DELTA:
            return most
        start, slope = max(LikelihoodPair(self.reports, way).guess(delta) for way in self._ways)
        return smallest_safe(self.delta, delta, most, min(start, most), slope, past=_PAST)

    @property
    def _ways(self) -> tuple[Likelihoods, ...]:
        known = self.rows.likelihoods
        return (known,) if self.rows.symmetric else (known, known.swapped)

    def bracket(self, delta: float) -> tuple[float, float]:
        """Return ε(δ), rounded down and up."""
        upper = self.epsilon(delta)
        if delta == 0 or upper == 0:
            return (self.rows.reach if delta == 0 else 0.0), upper
        if delta < SMALLEST_DELTA:
            return self.bracket(SMALLEST_DELTA)[0], upper
        return greatest_unsafe(lambda epsilon: self.ends(epsilon)[0], delta, upper), upper

    def grid(self, mesh: Mesh) -> DeltaGrid:
        """Return lower and upper bounds of δ at every point of the grid."""
        return grid_of(each(partial(_at_knot, self, max(_GRID_TOLERANCE, mesh.tolerance))), mesh)

    def provable(self) -> "Claim | None":
        """Return the claim of Theorem O, in whole numbers or of binary randomized response."""
        from shoal.proofs.one_bit_claim import OneBitClaim

        known = self.rows.likelihoods
        if isinstance(known, IntegerLikelihoods):
            ((fewest, most),) = ((first, second) for first, second, _ in known.outcomes if first < second)
            return OneBitClaim(self.reports, self.local_epsilon, fewest, most, known.total)
        if self.rows == BitRows.response(self.local_epsilon):
            return OneBitClaim(self.reports, self.local_epsilon, 0, 0, 0)
        return None

    def renyi(self, orders: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return upper bounds of the Rényi divergence: of the largest δ at each ε, or of the strong clones if less."""
        if self.reports == 1:
            return np.asarray(np.max([LikelihoodPair(1, way).one_way(orders) for way in self._ways], axis=0))
        result = ClonePair(self.reports, self.local_epsilon, "strong-clones").renyi(orders)
        if self.local_epsilon < _STEEPEST and self.reports <= _MOST_REPORTS:
            integral = _BitIntegral(self, orders)
            result = np.fmin(result, divergences([integral], orders))
        return result


class _BitIntegral(ProfileIntegral):
    """The integral of the largest δ over all datasets, for the Rényi divergences at `orders`."""

    chorded = 4e-4
    smoothed = 1e-4

    def __init__(self, profile: OneBitProfile, orders: NDArray[np.float64]) -> None:
        super().__init__(profile.local_epsilon, (orders - 1, -orders))
        self._profile = profile

    def rough(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return roughly log δ at each point."""
        return self._largest(points, lambda bits: bits.likely)

    def close(self, knots: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return logarithms of upper bounds of δ at each knot."""
        return self._largest(knots, lambda bits: log_ceiling(bits, self.smoothed))

    def _largest(
        self, points: NDArray[np.float64], log_delta: Callable[[BitCount], float]
    ) -> NDArray[np.float64]:  # fmt: skip
        """Return the largest logarithm of δ, of zeros and of ones, at each point."""
        rows = self._profile.rows
        counts = [rows.counts(self._profile.reports, point) for point in points.tolist()]
        return np.array([max(map(log_delta, each), default=-math.inf) for each in counts])


@lru_cache(maxsize=16_384)
def _at_knot(profile: OneBitProfile, tolerance: float, epsilon: float) -> tuple[float, float]:
    """Return both ends of δ(ε), kept: other tilts or another number of rounds have many of the same knots."""
    return profile.ends(epsilon, tolerance=tolerance)


def one_bit(setting: Setting) -> OneBitProfile:
    """Return the profile of a randomizer that reports one bit."""
    rows = setting.bit
    if rows is None:
        raise ParameterError("one-bit needs a randomizer with `bit`, whose reports have two values")
    return OneBitProfile(setting.reports, rows, max(setting.local_epsilon, rows.reach))


register(
    ShufflingBound(
        name="one-bit",
        statement=(
            "If every report is one bit, with probability between a and b of being a one, δ(ε) is the largest value, "
            "over k = 0, …, n − 1 and t, of A·Pr(S = t) − (e^ε − 1)·Pr(S < t), with S ~ Bin(n − 1 − k, a) + Bin(k, b) "
            "and A = (1 − a) − e^ε·(1 − b), or the same for zeros. This is the exact worst case over all datasets. Its "
            "evaluation is exact up to about 1e-7; where it is not (a value that is reported by less than a few "
            "percent, and δ of about 0.01 or more), the blanket counts if it is below. Rényi divergences are at most "
            "those of the strong clones."
        ),
        citation=(
            "Theorem O of shoal (docs/theory/one-bit.md), or Lemma 5.3, Balle, Bell, Gascón and Nissim, "
            "arXiv 1903.02837 (CRYPTO 2019), where that is below"
        ),
        assumptions=(ONE_BIT, *FIXED),
        make=one_bit,
        needs=f"a randomizer whose reports have two values, with local_epsilon <= {LARGEST_LOCAL_EPSILON:g}",
        applies=has_bit,
        adaptive=False,
        preference=0,  # no other bound is below it by more than the tolerance
        proof="docs/theory/one-bit.md",
    ),
)
