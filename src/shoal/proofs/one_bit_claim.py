"""A claim about reports of one bit: the exact worst case over all datasets, by Theorem O (docs/theory/one-bit.md).

With k of the others holding the input with the most ones, δ(ε) is the largest v_k(t); all k from 0 to n − 1 are covered
by ranges. In a range, whoever may or may not hold that input is left out, which does not make δ smaller. Ranges are
halved, the largest bound first, until the largest one is of a short range.
"""

import heapq
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from flint import acb, arb

from shoal.errors import ParameterError
from shoal.proofs.balls import INFINITE, Ball, Summand, above, ball, precision, zero
from shoal.proofs.claim import RoundClaim, Witness, count, double
from shoal.proofs.words import FIXED, ONE_BIT
from shoal.proofs.work import spend

__all__ = ["OneBitClaim"]

_FINEST, _COARSE = 4_000, 700
"""A range of this part of all people is short: for one round, and for one of many."""
_MOST_NODES, _MOST_KEPT = 1e12, 20_000
_STEEP = 4.0
"""The least tilt, over the deviation of the sum: a smaller one would need more nodes."""
_DROPPED = 50.0
"""Nodes below exp(−50) of the largest are charged."""


@dataclass(frozen=True)
class OneBitClaim(RoundClaim, name="one-bit"):
    """Reports with two values: of binary randomized response (total 0), or with ones `fewest` to `most` of `total`."""

    reports: int
    local_epsilon: float
    fewest: int
    most: int
    total: int

    def __post_init__(self) -> None:
        """Check that ε₀ is that of the two probabilities, or more."""
        count(reports=self.reports)
        local = double(0.0, 700.0, local_epsilon=self.local_epsilon)
        count(0, 1 << 130, total=self.total)
        if self.total == 0:
            count(0, 0, fewest=self.fewest)
            count(0, 0, largest=self.most)
            return
        count(1, self.total - 2, fewest=self.fewest)
        count(self.fewest + 1, self.total - 1, largest=self.most)
        with precision(512):
            ratio = ball(local).exp()
            ones, zeros = (ball(self.most), ball(self.fewest)), (self.total - self.fewest, self.total - self.most)
            if not (ones[0] <= ratio * ones[1] and ball(zeros[0]) <= ratio * zeros[1]):
                raise ParameterError(f"two probabilities of a bit differ by more than e^{local!r}")

    @property
    def theorem(self) -> str:
        """Where it is proved."""
        return ONE_BIT[0]

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What has to be true."""
        return (ONE_BIT[1], *FIXED)

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
        """Yield ever more of ε: ranges of people cost a little."""
        for more in (1e-4, 3e-4, 1e-3) if self.reports > _FINEST else (0.0, 1e-8, 1e-6, 1e-5, 1e-4, 1e-3):
            larger = min(epsilon * (1 + more), self.ceiling)
            yield larger, {"fineness": 0.0, "from": larger}

    def at(self, epsilon: float, *, fineness: float) -> Ball:
        """Return a ball whose upper end is at least δ(ε); with a fineness, ranges are longer."""
        if epsilon >= self.local_epsilon:
            return zero()
        growth, finest = ball(epsilon).exp(), _COARSE if fineness else _FINEST
        worst = zero()
        for low, high in self._probabilities():
            gain = (1 - low) - growth * (1 - high)
            if not gain <= 0:
                people = self.reports - 1
                sums = _Sums(low, high, gain, growth, people)
                worst = worst.max(_largest(sums, gain, people, finest) if people else gain)
        return worst


class _Node(NamedTuple):
    height: Ball
    point: Ball
    log_low: Ball
    log_high: Ball
    kernel: Ball


class _Sums:
    """v(t) of bits of two kinds, from above, by a sum over nodes that is the same for any numbers of them."""

    def __init__(self, low: Ball, high: Ball, gain: Ball, growth: Ball, people: int) -> None:
        self.gain, self.excess = gain, growth - 1
        natural = ((growth * high - low) / gain).log()  # ln G
        spread = math.sqrt(people * max(float(low * (1 - low)), float(high * (1 - high)), 1e-300))
        tilt = max(float(natural), _STEEP / (spread + 1), 1e-12)
        self.theta = ball(tilt)
        small = (-self.theta).exp()
        self.means = [p * small / (1 - p + p * small) for p in (low, high)]
        self.marks = [p / (p + (1 - p) * natural.exp()) for p in (low, high)]  # the means at which v is largest
        self.spreads = [mean * (1 - mean) for mean in self.means]
        self.logs = [(1 - p + p * small).log() for p in (low, high)]
        widest = max(float(part) for part in self.spreads) * people
        least = min(float(part) for part in self.spreads) * people
        deviation = math.sqrt(max(widest, 1.0))
        # Aliases on the right are charged (λ − 1)·e^(−θN); an answer is not below exp of the least logarithm.
        depth = -min(float(log + self.theta * mark) for log, mark in zip(self.logs, self.marks, strict=True)) * people
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
        spend(4 * kept)
        for index in range(kept + 1):
            point = acb(self.theta, 2 * arb.pi() * index / self.nodes)
            turned = (-point).exp()
            kernel = (gain - self.excess / (point.exp() - 1)) * (1 if index == 0 else 2) / self.nodes
            logs = [(1 - p + p * turned).log() - log for p, log in zip((low, high), self.logs, strict=True)]
            self.table.append(_Node(arb(index), point, logs[0], logs[1], kernel))

    def largest(self, lows: int, highs: int) -> Ball:
        """Return an upper bound of the largest v(t) with so many people of each kind."""
        spend(3 * len(self.table))
        mark = lows * self.marks[0] + highs * self.marks[1]
        if not mark.is_finite():
            return INFINITE
        best = zero()
        scale = lows * self.logs[0] + highs * self.logs[1]
        spread = lows * self.spreads[0] + highs * self.spreads[1]
        for t in range(int(mark.lower().floor().unique_fmpz()), int(mark.upper().ceil().unique_fmpz()) + 1):
            total = arb(0)
            for node in self.table:
                turn = lows * node.log_low + highs * node.log_high + acb(0, node.point.imag * t)
                total += (turn.exp() * node.kernel).real
            if self.cut:
                total += self.bound * (-2 * spread * self.first_left_out.sin() ** 2).exp()
            best = best.max((scale + self.theta * t).exp() * total + self.alias)
        return best


def _largest(sums: _Sums, gain: Ball, people: int, finest: int) -> Ball:
    """Return an upper bound of the largest v_k(t) over all k, ranges of k with the largest bound first."""
    if not sums.table:  # too many nodes
        return gain
    short = max(1, people // finest)

    def entry(first: int, last: int) -> tuple[float, int, int]:
        return -above(sums.largest(people - last, first)), first, last

    ranges = [entry(0, people)]
    while True:
        highest, first, last = heapq.heappop(ranges)
        if last - first < short or last == first:
            return (ball(-highest) * (1 + ball(2.0**-50))).min(gain) if math.isfinite(highest) else gain
        middle = (first + last) // 2
        for half in ((first, middle), (middle + 1, last)):
            heapq.heappush(ranges, entry(*half))
