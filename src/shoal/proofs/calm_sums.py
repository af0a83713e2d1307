"""E[(M − u)₊] of a sum M of copies of a measure on whole numbers, for every whole u, in balls and from above.

With φ the transform of the measure, κ(ζ) = Σ m·e^{−ζm} over m ≥ 1, and ζ = θ + 2πik/N,

    E[(M − u)₊]  ≤  e^{−θu} · (1/N) · Σ_k  φ(ζ)ⁿ · κ(ζ) · e^{−2πiku/N},

for every θ > 0 and N: what the sum has besides are the terms m·e^{θ(M − u − m)} with m ≥ 1 and m ≡ M − u modulo N,
which are not negative. Few nodes count; the same ones serve every u (docs/theory/certificates.md, 6).
"""

import math
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

from flint import acb, arb, arb_mat

from shoal.proofs.balls import Ball, ball, total
from shoal.proofs.work import keep, room, spend

__all__ = ["CalmSums", "CopySum", "Turns"]

_DROPPED = -45.0
"""A node whose size, relative to the largest, is shown to be below exp(−45) is charged and not summed."""
_SHORT = 8
"""Ranges of so few nodes are summed."""
_LOW, _HIGH = 5.0, 13.0
"""So many deviations below the mean, and above it, E[(M − u)₊] is known well enough from there."""
_BULKS = (0.5, 0.2, 0.08, 0.03, 0.01)
"""Neighbours with at least this part of the largest mass are a bulk."""
_GRAIN = 40
"""So many points to a deviation of a sum are enough for chords."""
_DOTS = 8
"""So many products in a sum over all values take a microsecond."""
_EACH = 20
"""Microseconds per node, or range of nodes, for powers, logarithms and the kernel."""


class _Roots(dict[int, tuple[Ball, Ball]]):
    """Cosine and sine of πd/N for whole d from 0 to 2N − 1, of those that are asked for."""

    def __init__(self, nodes: int) -> None:
        self.nodes = nodes

    def __missing__(self, index: int) -> tuple[Ball, Ball]:
        spend(3)
        sine, cosine = (arb(index) / self.nodes).sin_cos_pi()
        if room(2.5):
            self[index] = cosine, sine
        return cosine, sine


class Turns:
    """cos(my) and sin(my) for some whole m, at y = πd/N for whole d: they serve all measures on the same numbers."""

    def __init__(self, multiples: tuple[int, ...], nodes: int) -> None:
        self.multiples, self.nodes = multiples, nodes
        self.roots = _Roots(nodes)
        self._rows: dict[int, tuple[Ball, Ball]] = {}

    def row(self, doubled: int) -> tuple[Ball, Ball]:
        """Return all cosines, and all sines, at d as matrices of one row."""
        row = self._rows.get(doubled)
        if row is None:
            spend(1.5 * len(self.multiples))
            turns = [doubled * multiple % (2 * self.nodes) for multiple in self.multiples]
            roots = [self.roots[turn] for turn in turns]
            cosines, sines = (arb_mat(1, len(turns), [root[side] for root in roots]) for side in (0, 1))
            row = (cosines, sines)
            if room(1.2 * len(self.multiples)):
                self._rows[doubled] = row
        return row


class _Bulk(NamedTuple):
    """Some neighbouring numbers: how much their tilted masses vary, and how much the others weigh."""

    variation: Ball
    others: Ball


class CalmSums:
    """Sums of n copies of a measure on the whole numbers of `turns`, tilted by θ, for several n."""

    def __init__(self, turns: Turns, masses: list[Ball], tilt: float) -> None:
        spend(20 + 4 * len(masses))
        self.turns, self.theta = turns, ball(tilt)
        self.whole = total(masses)
        weights = [mass * (self.theta * multiple).exp() for mass, multiple in zip(masses, turns.multiples, strict=True)]
        self.moment = total(weights)
        shares = [weight / self.moment for weight in weights]
        moving = [share * multiple for share, multiple in zip(shares, turns.multiples, strict=True)]
        mean = total(moving)
        square = total([each * multiple for each, multiple in zip(moving, turns.multiples, strict=True)])
        self.variance = (square - mean * mean).upper()
        self._shares = shares
        self._column, self._moving = (arb_mat(len(each), 1, each) for each in (shares, moving))
        self._nodes: dict[int, Ball] = {}
        self._ranges: dict[tuple[int, int], Ball] = {}
        self._powers: dict[int, CopySum] = {}
        self.floats = [
            (multiple, max(float(mass), 0.0)) for multiple, mass in zip(turns.multiples, masses, strict=True)
        ]

    def node(self, doubled: int) -> Ball:
        """Return the transform at y = π·doubled/N, relative to φ(θ)."""
        if doubled not in self._nodes:
            self._nodes[doubled] = self._summed(doubled, self._column)
        return self._nodes[doubled]

    def _summed(self, doubled: int, column: Ball) -> Ball:
        spend(len(self.turns.multiples) // _DOTS + _DOTS)
        real, imaginary = (row * column for row in self.turns.row(doubled))
        return acb(real[0, 0], imaginary[0, 0])

    @cached_property
    def _bulks(self) -> list[_Bulk]:
        shares, multiples = self._shares, self.turns.multiples
        spend(4 * len(shares))
        masses = [float(share) for share in shares]
        mode = masses.index(max(masses))
        bulks = []
        for part in _BULKS:
            low = high = mode
            while low > 0 and multiples[low] - multiples[low - 1] == 1 and masses[low - 1] >= part * masses[mode]:
                low -= 1
            while (
                high + 1 < len(masses)
                and multiples[high + 1] - multiples[high] == 1
                and masses[high + 1] >= part * masses[mode]
            ):
                high += 1
            inside = shares[low : high + 1]
            variation = inside[0] + inside[-1] + total([abs(one - two) for one, two in pairwise(inside)])
            others = total(shares[:low]) + total(shares[high + 1 :])
            bulks.append(_Bulk(variation.upper(), others.upper()))
        return bulks

    def beyond(self, first: int) -> Ball:
        """Return an upper bound of |φ|² at the nodes from the first on, by how much neighbouring masses vary.

        (1 − e^{iy})·Σ wₘ·e^{imy} = Σ (wₘ − wₘ₋₁)·e^{imy}, and |1 − e^{iy}| = 2·sin(y/2).
        """
        slowest = 2 * (arb.pi() * first / self.turns.nodes).sin()
        size = min((bulk.variation / slowest + bulk.others for bulk in self._bulks), key=float)
        return (size * size).upper()

    def largest(self, first: int, final: int) -> Ball:
        """Return an upper bound of |φ|² at the nodes from the first to the last: see `inversion`, (1) there."""
        if (first, final) not in self._ranges:
            value, moving = self.node(first + final), self._summed(first + final, self._moving)
            radius = arb.pi() * (final - first) / self.turns.nodes
            square = value.real * value.real + value.imag * value.imag
            rising = 2 * (value.imag * moving.real - value.real * moving.imag)  # moving is −i times the derivative
            self._ranges[first, final] = (square + abs(rising) * radius + self.variance * radius * radius).upper()
        return self._ranges[first, final]

    def of(self, copies: int) -> "CopySum":
        """Return the sum of this many copies."""
        if copies not in self._powers:
            self._powers[copies] = CopySum(self, copies)
        return self._powers[copies]


class CopySum:
    """The sum of some copies."""

    def __init__(self, sums: CalmSums, copies: int) -> None:
        self.sums, self.copies = sums, copies
        self._known: dict[int, Ball] = {}

    @cached_property
    def window(self) -> tuple[int, int]:
        """Between these points E[(M − u)₊] is computed; beyond them it is bounded from there."""
        if self.copies == 0:
            return 0, 0
        whole = math.fsum(mass for _, mass in self.sums.floats)
        mean = math.fsum(mass * multiple for multiple, mass in self.sums.floats) / whole
        square = math.fsum(mass * (multiple - mean) ** 2 for multiple, mass in self.sums.floats) / whole
        middle, deviation = self.copies * mean, math.sqrt(self.copies * square)
        return math.floor(middle - _LOW * deviation), math.ceil(middle + _HIGH * deviation)

    def chord(self, point: int) -> Ball:
        """Return an upper end of E[(M − u)₊] at u = point, which is convex, from few other points."""
        low, high = self.window
        grain = max(1, math.floor((high - low) / (_GRAIN * (_LOW + _HIGH))))
        if not low < point < high:
            return self.upper(point)
        ahead = (point - low) % grain
        near = self.upper(point - ahead)
        return near if ahead == 0 else near + (self.upper(point - ahead + grain) - near) * ahead / grain

    @cached_property
    def slope(self) -> Ball:
        """How likely it is that no copy is missing: E[(M − u)₊] falls no faster."""
        return self.sums.whole**self.copies

    def upper(self, point: int) -> Ball:
        """Return an upper end of E[(M − u)₊] at u = point."""
        if self.copies == 0:
            return arb(max(-point, 0))
        low, high = self.window
        inside = min(max(point, low), high)
        if inside not in self._known:
            keep(2)
            self._known[inside] = self._inverted(inside)
        value = self._known[inside]
        return value + (low - point) * self.slope if point < low else value

    def _inverted(self, point: int) -> Ball:
        kept, terms, charged = self._terms
        nodes, roots = self.sums.turns.nodes, self.sums.turns.roots
        spend(10 + 2 * len(kept))
        turns = [2 * (point * index % nodes) for index in kept]
        row = arb_mat(1, terms.nrows(), [part for turn in turns for part in roots[turn]])
        lifted = (self.copies * self.sums.moment.log() - self.sums.theta * point).exp()
        return (lifted * ((row * terms)[0, 0] + charged)).upper()

    @cached_property
    def _terms(self) -> tuple[list[int], Ball, Ball]:
        """The nodes that count, their real and imaginary parts one after the other, and a charge for the others."""
        sums, nodes = self.sums, self.sums.turns.nodes
        largest = _kernel(acb(sums.theta)).real / nodes
        kept: dict[int, Ball] = {}
        charged = arb(0)
        ranges, start = [(0, min(_SHORT, nodes // 2))], _SHORT + 1
        while start <= nodes // 2:
            ranges.append((start, min(2 * start, nodes // 2)))
            start = 2 * start + 1
        while ranges:
            first, final = ranges.pop()
            spend(_EACH)
            if first > _SHORT:
                size = self._size(sums.beyond(first))
                if not size < _DROPPED:
                    size = self._size(sums.largest(first, final))
                if size < _DROPPED:
                    charged += 2 * (final - first + 1) * largest * size.exp()
                    continue
                if final - first >= _SHORT:
                    middle = (first + final) // 2
                    ranges += [(first, middle), (middle + 1, final)]
                    continue
            for index in range(first, final + 1):
                spend(_EACH)
                value = sums.node(2 * index)
                size = self._size((value.real * value.real + value.imag * value.imag).upper())
                if size < _DROPPED:
                    charged += 2 * largest * size.exp()
                    continue
                kernel = _kernel(acb(sums.theta, 2 * arb.pi() * index / nodes)) / nodes
                kept[index] = value**self.copies * kernel * (1 if index == 0 else 2)
        rows = [part for term in kept.values() for part in (term.real, term.imag)]
        return [*kept], arb_mat(len(rows), 1, rows), charged.upper()

    def _size(self, square: Ball) -> Ball:
        """Return the logarithm of the power, from an upper bound of |φ|²; it is at most 0."""
        return square.log() * self.copies / 2 if 0 < square < 1 else arb(0)


def _kernel(point: Ball) -> Ball:
    """Return Σ m·e^{−ζm} over m ≥ 1."""
    half = (point / 2).sinh()
    return 1 / (4 * half * half)
