"""A claim about reports of one bit: the exact worst case over all datasets, by Theorem O (docs/theory/one-bit.md).

With k of the others holding the input with the most ones, δ(ε) is the largest v_k(t); all k from 0 to n − 1 are covered
by cells. Cells are halved, the one with the largest bound first, until that is a single k, or hardly above what some k
reaches. Where the blanket of the two extreme inputs is below, the bound is that of the blanket.
"""

import heapq
from collections.abc import Iterator
from dataclasses import dataclass

from shoal.assumptions import FIXED, ONE_BIT, Assumption
from shoal.proofs.balls import INFINITE, Ball, Summand, above, ball, zero
from shoal.proofs.bit_sums import BitSums
from shoal.proofs.claim import RoundClaim, Witness, count, double, least_local_epsilon
from shoal.proofs.dominating_pair import hidden
from shoal.proofs.words import THEOREM_O

__all__ = ["OneBitClaim"]

_FINE, _COARSE = (500, 1e-7), (60, 1e-4)
"""How many cells are halved at most, and how far above the largest δ that is reached the bound may be, relatively: for
one round, and for one of many."""
_MANY = 1_000
"""Among so many k there is one for which the best t is close to a whole number."""
_LADDER = (0.0, 1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3)


@dataclass(frozen=True)
class OneBitClaim(RoundClaim, name="one-bit"):
    """Reports with two values: of binary randomized response (total 0), or with ones `fewest` to `most` of `total`."""

    reports: int
    local_epsilon: float
    fewest: int
    most: int
    total: int

    def __post_init__(self) -> None:
        """Check that ε₀ is that of the two probabilities."""
        count(reports=self.reports)
        local = double(0.0, 700.0, local_epsilon=self.local_epsilon)
        count(0, 1 << 130, total=self.total)
        if self.total == 0:
            count(0, 0, fewest=self.fewest)
            count(0, 0, largest=self.most)
            return
        count(1, self.total - 2, fewest=self.fewest)
        count(self.fewest + 1, self.total - 1, largest=self.most)
        ones, zeros = (self.most, self.fewest), (self.total - self.fewest, self.total - self.most)
        least_local_epsilon(local, (ones, zeros))

    @property
    def theorem(self) -> str:
        """Where it is proved."""
        return THEOREM_O

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        """What has to be true."""
        return (ONE_BIT, *FIXED)

    @property
    def subject(self) -> str:
        """The bits with their numbers."""
        ones = f", ones with probability {self.fewest} to {self.most} of {self.total}" if self.total else ""
        return f"{self.reports:,} shuffled reports of one bit, local_epsilon={self.local_epsilon!r}{ones}"

    def summands(self, growth: Ball) -> list[Summand]:
        """Return nothing: δ is no mean of a sum."""
        return []

    def _probabilities(self) -> list[tuple[Ball, Ball]]:
        """Return the least and the largest probability of a one; and of a zero, if that is something else."""
        if self.total == 0:
            low = 1 / (ball(self.local_epsilon).exp() + 1)
            return [(low, 1 - low)]
        low, high = ball(self.fewest) / self.total, ball(self.most) / self.total
        ways = [(low, high)]
        return ways if self.fewest + self.most == self.total else [*ways, (1 - high, 1 - low)]

    def attempts(self, epsilon: float, delta: float) -> Iterator[tuple[float, Witness]]:
        """Yield ever more of ε: cells of people cost a little."""
        for more in _LADDER:
            larger = min(epsilon * (1 + more), self.ceiling)
            yield larger, {"fineness": 0.0, "from": larger}

    def at(self, epsilon: float, *, fineness: float) -> Ball:
        """Return a ball whose upper end is at least δ(ε); with a fineness, there are fewer cells."""
        if epsilon >= self.local_epsilon:
            return zero()
        growth = ball(epsilon).exp()
        worst = zero()
        for low, high in self._probabilities():
            gain = (1 - low) - growth * (1 - high)
            if gain > 0 and self.reports > 1:
                sums = BitSums(low, high, growth, self.reports - 1)
                gain = gain.min(_largest(sums, _COARSE if fineness else _FINE))
            worst = worst.max(gain)
        return worst.min(self._blanket(growth, fineness))

    def _blanket(self, growth: Ball, fineness: float) -> Ball:
        """Return a ball whose upper end is at least the δ(ε) of the blanket, which needs no cells of k."""
        low, high = self._probabilities()[0]
        # It is divided by; 1 − high may have no digits left, and then be zero.
        not_high = ball(self.total - self.most) / self.total if self.total else low
        rows, common = ((1 - low, low), (not_high, high)), (not_high, low)
        worst = zero()
        for first, second in (rows, rows[::-1]):
            bits = zip(first, second, common, strict=True)
            values = tuple((one - growth * other) / least for one, other, least in bits)
            worst = worst.max(hidden(Summand(values, common, zero()), self.reports, fineness=fineness))
        return worst


def _largest(sums: BitSums, effort: tuple[int, float]) -> Ball:
    """Return an upper bound of the largest v_k(t) over all k, cells of k with the largest bound first."""
    if not sums.table:  # too many nodes
        return INFINITE
    most, enough = effort
    value, reached = sums.cell(0, sums.people)
    cells = [(-above(value), 0, sums.people)]
    if sums.people < _MANY:
        reached = 0.0
    for _ in range(most):
        highest, first, last = cells[0]
        if last == first or -highest <= reached * (1 + enough):
            break
        heapq.heappop(cells)
        middle = (first + last) // 2
        reached = max(reached, float(sums.largest(sums.people - middle, middle)))
        for low, high in ((first, middle), (middle + 1, last)):
            if low == high:
                value = sums.largest(sums.people - low, low)
            else:
                value, about = sums.cell(low, high)
                reached = max(reached, about) if high - low >= _MANY else reached
            heapq.heappush(cells, (-min(above(value), -highest), low, high))
    return ball(-cells[0][0])
