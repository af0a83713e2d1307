"""A claim about reports of one bit: the exact worst case over all datasets, by Theorem O (docs/theory/one-bit.md).

With k of the others holding the input with the most ones, δ(ε) is the largest v_k(t); all k from 0 to n − 1 are covered
by cells. Cells are halved, the one with the largest bound first, until that is a single k, or hardly above what some k
reaches. The blanket of the two extreme inputs is a bound as well. v is a sum over nodes, (3) of docs/theory/one-bit.md;
in a cell its terms are developed around the middle (docs/theory/certificates.md, section 7).
"""

import heapq
import math
from dataclasses import dataclass

from flint import acb, arb

from shoal.assumptions import FIXED, ONE_BIT, THEOREM_O
from shoal.proofs.balls import INFINITE, ZERO, Ball, Summand, above, ball, total
from shoal.proofs.claim import RoundClaim, count, double, hidden, least_local_epsilon
from shoal.proofs.work import spend

# How many cells are halved at most, and how far above the largest δ that is reached the bound may be, relatively: for
# one round, and for one of many.
_FINE, _COARSE = (500, 1e-7), (60, 1e-4)
_MANY = 1_000  # among this many k there is one for which the best t is close to an integer
# The longest period, and the most nodes that are summed: beyond, the blanket is the bound.
_MOST_NODES, _MOST_KEPT = 1e12, 20_000
_STEEP = 1.5  # the least tilt, over the standard deviation of the sum: a smaller one would need more nodes
_DROPPED = 50.0  # nodes below exp(−50) of the largest are charged and not summed
_DEGREE = 7  # of the polynomial in t: the next term is below a millionth of v
_PIECES = 64  # into which [−1, 1] is cut to bound the polynomial: more of them take longer, and lower the bound


@dataclass(frozen=True)
class OneBitClaim(RoundClaim, name="one-bit"):
    """Reports with two values: of binary randomized response (total 0), or with ones `fewest` to `most` of `total`."""

    reports: int
    local_epsilon: float
    fewest: int
    most: int
    total: int

    theorem = THEOREM_O
    assumptions = (ONE_BIT, *FIXED)

    def _check(self) -> None:
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
    def subject(self) -> str:
        """The bits with their numbers."""
        ones = f", ones with probability {self.fewest} to {self.most} of {self.total}" if self.total else ""
        return f"{self.reports:,} shuffled reports of one bit, local_epsilon={self.local_epsilon!r}{ones}"

    def _probabilities(self) -> list[tuple[Ball, Ball]]:
        """Return the least and the largest probability of a one; and of a zero, if that is something else."""
        if self.total == 0:
            low = 1 / (ball(self.local_epsilon).exp() + 1)
            return [(low, 1 - low)]
        low, high = ball(self.fewest) / self.total, ball(self.most) / self.total
        ways = [(low, high)]
        return ways if self.fewest + self.most == self.total else [*ways, (1 - high, 1 - low)]

    def at(self, epsilon: float, *, fineness: float) -> Ball:
        """Return a ball whose upper end is at least δ(ε); with a fineness, there are fewer cells."""
        if epsilon >= self.local_epsilon:
            return ZERO
        growth = ball(epsilon).exp()
        worst = ZERO
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
        worst = ZERO
        for first, second in (rows, rows[::-1]):
            bits = zip(first, second, common, strict=True)
            values = tuple((one - growth * other) / least for one, other, least in bits)
            worst = worst.max(hidden(Summand(values, common, ZERO), self.reports, fineness=fineness))
        return worst


def _largest(sums: "BitSums", effort: tuple[int, float]) -> Ball:
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
        middle = (first + last) // 2  # a single k, to learn what is reached
        reached = max(reached, float(sums.largest(sums.people - middle, middle)))
        for low, high in ((first, middle), (middle + 1, last)):
            if low == high:
                value = sums.largest(sums.people - low, low)
            else:
                value, about = sums.cell(low, high)
                reached = max(reached, about) if high - low >= _MANY else reached
            heapq.heappush(cells, (-min(above(value), -highest), low, high))
    return ball(-cells[0][0])


class BitSums:
    """Bits that are one with probability `low` or `high`, of which there are `people` in all.

    With λ = growth, v(t) = A·Pr(S = t) − (λ − 1)·Pr(S < t), where A = (1 − low) − λ(1 − high) must be positive.
    """

    def __init__(self, low: Ball, high: Ball, growth: Ball, people: int) -> None:
        self.people = people
        gain, self.excess = (1 - low) - growth * (1 - high), growth - 1
        natural = ((growth * high - low) / gain).log()  # ln G
        spread = math.sqrt(people * max(float(low * (1 - low)), float(high * (1 - high)), 1e-300))
        tilt = max(float(natural), _STEEP / (spread + 1), 1e-12)
        self.theta = arb(tilt)
        small = (-self.theta).exp()
        means = [p * small / (1 - p + p * small) for p in (low, high)]
        self.marks = [p / (p + (1 - p) * natural.exp()) for p in (low, high)]  # the means at which v is largest
        self.spreads = [mean * (1 - mean) for mean in means]
        self.logs = [
            (1 - p + p * small).log() + self.theta * mark for p, mark in zip((low, high), self.marks, strict=True)
        ]
        widest = max(float(part) for part in self.spreads) * people
        least = min(float(part) for part in self.spreads) * people
        deviation = math.sqrt(max(widest, 1.0))
        # Aliases on the right are charged (λ − 1)·e^(−θN); the largest v is about exp of the largest logarithm.
        depth = -max(float(log) for log in self.logs) * people
        size = max(10 * deviation + 24, (max(depth, 0.0) + 3 * math.log(people + 2) + 30) / tilt)
        self.nodes = 2 * math.ceil(min(size, _MOST_NODES) / 2) + 1
        self.alias = self.excess * (-self.theta * self.nodes).exp() / (1 - (-self.theta * self.nodes).exp())
        edge = math.sqrt(min(1.0, _DROPPED / (2 * max(least, 1e-9))))
        kept = self.nodes // 2 if edge >= 1 else min(self.nodes // 2, math.ceil(math.asin(edge) / math.pi * self.nodes))
        self.cut = kept < self.nodes // 2
        self.first_left_out = arb.pi() * (kept + 1) / self.nodes
        self.bound = gain + self.excess / (self.theta.exp() - 1)
        self.table: list[tuple[Ball, Ball, Ball, Ball]] = []  # s, the two logarithms, and the kernel
        if kept > _MOST_KEPT or size > _MOST_NODES:
            return
        spend(100 + 10 * kept)
        for index in range(kept + 1):
            point = acb(self.theta, 2 * arb.pi() * index / self.nodes)
            turned = (-point).exp()
            kernel = (gain - self.excess / (point.exp() - 1)) * (1 if index == 0 else 2) / self.nodes
            logs = [(1 - p + p * turned).log() + point * mark for p, mark in zip((low, high), self.marks, strict=True)]
            self.table.append((point, logs[0], logs[1], kernel))

    def largest(self, lows: int, highs: int) -> Ball:
        """Return an upper bound of the largest v(t) with so many people of each kind."""
        spend(20 + 4 * len(self.table))
        mark = lows * self.marks[0] + highs * self.marks[1]
        if not mark.is_finite():
            return INFINITE
        terms = [(point, (lows * low + highs * high).exp() * kernel) for point, low, high, kernel in self.table]
        best = ZERO
        least = int(mark.lower().floor().unique_fmpz())
        most = int(mark.upper().ceil().unique_fmpz())
        for t in range(least, most + 1):
            spend(10 + 4 * len(self.table))
            value = total([(term * (point * (t - mark)).exp()).real for point, term in terms])
            best = best.max(value + self._left_out(lows, highs, t - mark) + self.alias)
        return best

    def _left_out(self, lows: int, highs: int, offset: Ball) -> Ball:
        """Return what the nodes that are left out may add, with so many people of each kind at the least."""
        if not self.cut:
            return ZERO
        scale = lows * self.logs[0] + highs * self.logs[1] + self.theta * offset
        spread = lows * self.spreads[0] + highs * self.spreads[1]
        return self.bound * (scale - 2 * spread * self.first_left_out.sin() ** 2).exp()

    def cell(self, first: int, last: int) -> tuple[Ball, float]:
        """Return an upper bound of the largest v(t) of all numbers of `high` from the first to the last, by (7.1).

        And about the largest v in the middle, if t need not be a whole number.
        """
        spend(600 + 20 * len(self.table))
        middle = arb(first + last) / 2
        half = arb(last - first) / 2
        moments = [arb(0)] * (_DEGREE + 1)
        slopes = [arb(0)] * 2
        beyond = arb(0)
        twisted = arb(0)
        curved = arb(0)
        for point, low, high, kernel in self.table:  # the sums ⟨·⟩ of (7.1)
            move = high - low
            term = ((self.people - middle) * low + middle * high).exp() * kernel
            size = abs(term)
            length = abs(point)
            turn = size * abs(move)
            beyond += size * length ** (_DEGREE + 1)
            twisted += turn * length * length
            curved += turn * abs(move) * (half * abs(move.real)).exp()
            moved = term * move
            slopes[0] += moved.real
            slopes[1] += (moved * point).real
            for order in range(_DEGREE + 1):
                moments[order] += term.real
                term = term * point / (order + 1)  # the powers with their factorials
        # (7.1): what does not depend on ξ
        remainder = beyond / math.factorial(_DEGREE + 1) + half * (twisted + half * curved) / 2
        best, about = self._highest(moments, slopes, first, last)
        # The logarithm of what is left out is affine in the number of people of either kind.
        left = self._left_out(self.people - first, first, arb(1))
        left = left.max(self._left_out(self.people - last, last, arb(1)))
        return best + self.theta.exp() * remainder + left + self.alias, about

    def _highest(self, moments: list[Ball], slopes: list[Ball], first: int, last: int) -> tuple[Ball, float]:
        """Return an upper bound on [−1, 1] of what depends on ξ in (7.1), and about the largest of its polynomial."""
        half = arb(last - first) / 2
        # For an integer g, ξ + μ_k − gk is an integer, and μ_k − gk is between these ends in the cell.
        rise = self.marks[1] - self.marks[0]
        ends = [self.people * self.marks[0] + k * (rise - round(float(rise))) for k in (first, last)]
        lowest = ends[0].min(ends[1])
        highest = ends[0].max(ends[1])
        # |P″| on [−1, 1], of P(u) = Σ moments·uⁱ
        bend = total([order * (order - 1) * abs(moments[order]) for order in range(2, _DEGREE + 1)])
        radius = arb(1) / _PIECES
        best = ZERO
        about = 0.0
        for piece in range(_PIECES):
            point = arb(2 * piece + 1 - _PIECES) / _PIECES
            if (lowest + point - radius).lower().ceil() > (highest + point + radius).upper().floor():
                continue  # no integer lies there
            height = arb(0)
            slope = arb(0)
            for moment in reversed(moments):
                slope = slope * point + height
                height = height * point + moment
            about = max(about, float(height))
            height += abs(slope) * radius + bend * radius * radius / 2  # of the polynomial on this piece
            height += half * (abs(slopes[0] + slopes[1] * point) + radius * abs(slopes[1]))
            best = best.max(height)
        return best, about
