"""v(t) of n − 1 bits of two kinds from above, in balls: for given numbers of both, and for a whole cell of them.

Both are the same sum over nodes, (3) of docs/theory/one-bit.md. In a cell, its terms are developed around the middle
(docs/theory/certificates.md, 7).
"""

import math
from typing import NamedTuple

from flint import acb, arb

from shoal.proofs.balls import INFINITE, Ball, zero
from shoal.proofs.work import spend

__all__ = ["BitSums"]

_MOST_NODES, _MOST_KEPT = 1e12, 20_000
_STEEP = 1.5
"""The least tilt, over the deviation of the sum: a smaller one would need more nodes."""
_DROPPED = 50.0
"""Nodes below exp(−50) of the largest are charged."""
_NARROW = 400.0
"""With a smaller variance whole numbers t are far apart, and leaving people out may be better than a cell."""
_DEGREE = 7
_PIECES = 64


class _Node(NamedTuple):
    point: Ball
    low: Ball
    high: Ball
    kernel: Ball


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
        self.narrow = least < _NARROW
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
        self.table: list[_Node] = []
        if kept > _MOST_KEPT or size > _MOST_NODES:
            return
        spend(100 + 10 * kept)
        for index in range(kept + 1):
            point = acb(self.theta, 2 * arb.pi() * index / self.nodes)
            turned = (-point).exp()
            kernel = (gain - self.excess / (point.exp() - 1)) * (1 if index == 0 else 2) / self.nodes
            logs = [(1 - p + p * turned).log() + point * mark for p, mark in zip((low, high), self.marks, strict=True)]
            self.table.append(_Node(point, logs[0], logs[1], kernel))

    def largest(self, lows: int, highs: int) -> Ball:
        """Return an upper bound of the largest v(t) with so many people of each kind."""
        spend(20 + 4 * len(self.table))
        mark = lows * self.marks[0] + highs * self.marks[1]
        if not mark.is_finite():
            return INFINITE
        terms = [(node.point, (lows * node.low + highs * node.high).exp() * node.kernel) for node in self.table]
        best = zero()
        for t in range(int(mark.lower().floor().unique_fmpz()), int(mark.upper().ceil().unique_fmpz()) + 1):
            spend(10 + 4 * len(self.table))
            total = arb(0)
            for point, term in terms:
                total += (term * (point * (t - mark)).exp()).real
            best = best.max(total + self._left_out(lows, highs, t - mark) + self.alias)
        return best

    def _left_out(self, lows: int, highs: int, offset: Ball) -> Ball:
        """Return what the nodes that are left out may add, with so many people of each kind at the least."""
        if not self.cut:
            return zero()
        scale = lows * self.logs[0] + highs * self.logs[1] + self.theta * offset
        spread = lows * self.spreads[0] + highs * self.spreads[1]
        return self.bound * (scale - 2 * spread * self.first_left_out.sin() ** 2).exp()

    def _offsets(self, first: int, last: int) -> tuple[Ball, Ball]:
        """Return ends between which the mean is, less a whole number, for all numbers of `high` in a cell."""
        rise = self.marks[1] - self.marks[0]
        whole = round(float(rise))
        ends = [self.people * self.marks[0] + number * (rise - whole) for number in (first, last)]
        return ends[0].min(ends[1]), ends[0].max(ends[1])

    def cell(self, first: int, last: int) -> tuple[Ball, float]:
        """Return an upper bound of the largest v(t) of all numbers of `high` from the first to the last.

        And about the largest v in the middle, if t need not be a whole number.
        """
        value, about = self._developed(first, last)
        if self.narrow:
            value = value.min(self.largest(self.people - last, first))
        return value, about

    def _developed(self, first: int, last: int) -> tuple[Ball, float]:
        spend(600 + 20 * len(self.table))
        middle, half = arb(first + last) / 2, arb(last - first) / 2
        moments = [arb(0)] * (_DEGREE + 1)
        slopes = [arb(0)] * 2
        beyond, twisted, curved = arb(0), arb(0), arb(0)
        for node in self.table:
            move = node.high - node.low
            term = ((self.people - middle) * node.low + middle * node.high).exp() * node.kernel
            size, length, turn = abs(term), abs(node.point), abs(move)
            beyond += size * length ** (_DEGREE + 1)
            twisted += size * turn * length * length
            curved += size * turn * turn * (half * abs(move.real)).exp()
            moved = term * move
            slopes[0] += moved.real
            slopes[1] += (moved * node.point).real
            for order in range(_DEGREE + 1):
                moments[order] += term.real
                term = term * node.point / (order + 1)  # the powers with their factorials
        lift = self.theta.exp()
        fixed = lift * (beyond / math.factorial(_DEGREE + 1) + half * twisted / 2 + half * half * curved / 2)
        # |P″| on [−1, 1], of P(u) = Σ moments·uⁱ
        bend = sum((order * (order - 1) * abs(moments[order]) for order in range(2, _DEGREE + 1)), arb(0))
        radius = arb(1) / _PIECES
        best, about = zero(), 0.0
        allowed = self._offsets(first, last)
        for piece in range(_PIECES):
            point = arb(2 * piece + 1 - _PIECES) / _PIECES
            if not _has_whole(allowed[0] + point - radius, allowed[1] + point + radius):
                continue
            height, slope = arb(0), arb(0)
            for moment in reversed(moments):
                slope = slope * point + height
                height = height * point + moment
            about = max(about, float(height))
            height += abs(slope) * radius + bend * radius * radius / 2
            height += half * (abs(slopes[0] + slopes[1] * point) + radius * abs(slopes[1]))
            best = best.max(height)
        left = zero()
        if self.cut:  # the logarithm of what is left out is affine in the number of people of either kind
            left = self._left_out(self.people - first, first, arb(1)).max(
                self._left_out(self.people - last, last, arb(1))
            )
        return best + fixed + left + self.alias, about


def _has_whole(start: Ball, stop: Ball) -> bool:
    """Tell whether a whole number may lie between two ends."""
    return bool(not start.lower().ceil() > stop.upper().floor())
