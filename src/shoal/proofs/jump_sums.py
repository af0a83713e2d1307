"""E[(W₁ + … + Wₙ − y)₊] for every y ≥ 0, in balls and from above: usual values on a lattice, large ones in a list.

W is moved to multiples of a step with its mean kept, which is larger in convex order. Multiples above a level are
*jumps*; with μ their measure and R_m(u) = E[(M − u)₊; no jump] for m copies,

    E[(W₁ + … + Wₙ − y)₊]  =  h · Σ_k  C(n, k) · ∫ R_{n−k}(y/h − j) μ*ᵏ(dj),

so that a tilt need only serve what is no jump (docs/theory/samplers.md, 5, and docs/theory/certificates.md, 6).
"""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from functools import cached_property
from itertools import accumulate, pairwise
from operator import mul
from typing import Any, NamedTuple

from flint import arb

from shoal.errors import RangeError
from shoal.proofs.balls import Ball, Summand, ball, total
from shoal.proofs.calm_sums import CalmSums, Turns
from shoal.proofs.work import spend

__all__ = ["JumpSums"]

_DENSITY, _FEWEST, _MOST = 0.3, 12.0, 160.0
"""Steps to a deviation of W are this over the fineness, within limits."""
_DENSE = 4
"""Up to so many deviations all multiples are used; twice as far, every second one, and so on."""
_COARSE, _COARSER = 3, 7
"""The ratio of a jump to the one before, of two jumps together and of more, is such a power of that of one alone."""
_MOST_JUMPS = 12
_SHARE = 1e-5
"""What may be charged in place of being computed, of the result."""
_PULLS, _LIFT = (4.0, 2.0), 15.0
"""θ times the deviation of the sum, and how much more ln φ(2θ)ⁿ may be than that of a normal sum."""
_CLEAR = 35.0
"""Aliases are to stay below exp(−35), relative to φ(θ)ⁿ."""
_RAISED = 1e-5
"""Values far below zero are raised, by so little that the mean of the sum grows by this part of a deviation."""
_GROUPS = 200
"""A lattice is chosen from so many groups of neighbouring values, about."""
_MOST_MULTIPLES = 50_000
"""The largest lattice; in certificates that shoal writes, lattices have a tenth of this size."""
_DIGITS = 2
"""Sizes of a lattice have so many binary digits, so that sums whose W are alike share one."""


class _Frame(NamedTuple):
    """A lattice: its step, the multiples that are no jumps, the jumps, θ for a step, and the number of nodes."""

    step: float
    calm: tuple[int, ...]
    jumps: list[int]
    tilt: float
    nodes: int


class JumpSums:
    """The sum of n copies of W, whose values rise; jumps are this ratio apart.

    Where `many` y are asked, few points serve all of them.
    """

    def __init__(
        self, summand: Summand, copies: int, *, fineness: float, ratio: float, many: bool, turns: dict[Any, Turns]
    ) -> None:
        self.copies, self.ratio, self.many = copies, ratio, many
        frame = _frame(summand, copies, fineness, ratio)
        self.step = ball(frame.step)
        multiples = [*frame.calm, *frame.jumps]
        masses = self._moved(summand, frame.step, multiples)
        calm = len(frame.calm)
        key = (frame.calm, frame.nodes)
        if key not in turns:
            turns[key] = Turns(frame.calm, frame.nodes)
        self.sums = CalmSums(turns[key], masses[:calm], frame.tilt)
        self._jumps = _Jumps.of(frame.jumps, masses[calm:])
        gains = [mass * max(multiple, 0) for mass, multiple in zip(masses, multiples, strict=True)]
        self._other, self._own = total(gains[:calm]), total(gains[calm:])
        self._lists = {1: self._jumps}

    @staticmethod
    def _moved(summand: Summand, step: float, multiples: Sequence[int]) -> list[Ball]:
        """Return the masses at these multiples; values are put at the two next to them, with their mean kept."""
        spend(2 * len(summand.values) + len(multiples))
        masses, inverse = [arb(0)] * len(multiples), 1 / ball(step)
        index = 0
        for value, probability in zip(summand.values, summand.probabilities, strict=True):
            point = value * inverse
            index = min(max(bisect_right(multiples, float(point), lo=index) - 1, 0), len(multiples) - 2)
            while not point <= multiples[index + 1]:
                index += 1
            share = ((point - multiples[index]) / (multiples[index + 1] - multiples[index])).max(arb(0))
            ahead = probability * share
            masses[index + 1] += ahead
            masses[index] += probability - ahead
        masses[multiples.index(0)] += (1 - total(summand.probabilities)).max(arb(0))
        return masses

    def upper(self, point: Ball) -> Ball:
        """Return a ball whose upper end is at least E[(W₁ + … + Wₙ − y)₊], for y ≥ 0."""
        place = point / self.step
        index = int(place.lower().floor().unique_fmpz())
        # Between two multiples it is linear in y.
        share = (place - index).max(arb(0)).min(arb(1))
        value = self._at(index)
        if not share.is_zero():
            value = (1 - share) * value + share * self._at(index + 1)
        return self.step * value

    def _at(self, index: int) -> Ball:
        value = self.sums.of(self.copies).upper(index)
        expected = self.copies * self._jumps.mass
        for number in range(1, self.copies + 1):
            if not self._jumps.multiples:
                break
            # So many jumps or more: (ΣW − y)₊ ≤ Σ(W − y/n)₊ ≤ ΣW₊.
            rest = self._own * _poisson(expected, number - 1) + self._other * _poisson(expected, number)
            rest = (self.copies * rest).upper()
            if number == _MOST_JUMPS or float(rest) <= _SHARE * float(value):
                return value + rest
            value += math.comb(self.copies, number) * self._with(number, index)
        return value

    def _with(self, number: int, index: int) -> Ball:
        """Return ∫ R(u − j) over the measure of so many jumps together, at u = index."""
        if number not in self._lists:
            ratio = self.ratio ** (_COARSE if number == 2 else _COARSER)
            self._lists[number] = self._jumps.and_more(self._lists[number - 1], ratio)
        jumps, calm = self._lists[number], self.sums.of(self.copies - number)
        low, high = calm.window
        first = bisect_left(jumps.multiples, index - high)
        final = bisect_right(jumps.multiples, index - low)
        value = jumps.before[first] * calm.upper(high)
        upper = calm.chord if self.many else calm.upper
        spend(20 + 3 * (final - first))
        for place in range(first, final):
            value += jumps.masses[place] * upper(index - jumps.multiples[place])
        if final < len(jumps.multiples):  # below the window it is linear
            mass, moment = jumps.after[final]
            value += mass * calm.upper(low) + (moment - mass * (index - low)) * calm.slope
        return value


class _Jumps:
    """A measure on whole numbers that rise, with sums over the first of them and over the last."""

    def __init__(self, multiples: list[int], masses: list[Ball]) -> None:
        self.multiples, self.masses = multiples, masses
        self.mass = total(masses)

    @classmethod
    def of(cls, multiples: list[int], masses: list[Ball]) -> "_Jumps":
        kept = [index for index, mass in enumerate(masses) if not mass.is_zero()]
        return cls([multiples[index] for index in kept], [masses[index] for index in kept])

    @cached_property
    def before(self) -> list[Ball]:
        """How much lies before each of them, and before the end."""
        return [*accumulate(self.masses, initial=arb(0))]

    @cached_property
    def after(self) -> list[tuple[Ball, Ball]]:
        """Mass and moment from each of them on."""
        rows = zip(reversed(self.multiples), reversed(self.masses), strict=True)
        sums = accumulate(rows, lambda both, row: (both[0] + row[1], both[1] + row[0] * row[1]), initial=(arb(0),) * 2)
        return [*sums][::-1]

    def gathered(self, ratio: float) -> "_Jumps":
        """Return fewer, each this many times the one before, with the mean kept."""
        multiples = _rising(self.multiples[0], self.multiples[-1], ratio)
        masses = [arb(0)] * len(multiples)
        _gather(self.multiples, self.masses, multiples, masses)
        return _Jumps.of(multiples, masses)

    def and_more(self, other: "_Jumps", ratio: float) -> "_Jumps":
        """Return the sum of one of these jumps and one of the others, on fewer multiples with the mean kept."""
        one, two = self.gathered(ratio), other.gathered(ratio)
        spend(1.2 * len(one.multiples) * len(two.multiples))
        multiples = _rising(one.multiples[0] + two.multiples[0], one.multiples[-1] + two.multiples[-1], ratio)
        masses = [arb(0)] * len(multiples)
        for multiple, mass in zip(one.multiples, one.masses, strict=True):
            shifted = [multiple + more for more in two.multiples]
            _gather(shifted, [mass * part for part in two.masses], multiples, masses)
        return _Jumps.of(multiples, masses)


def _gather(points: Sequence[int], parts: Sequence[Ball], multiples: Sequence[int], masses: list[Ball]) -> None:
    """Add rising points with their parts to the masses at the two multiples next to each, with their mean kept."""
    index = bisect_left(multiples, points[0]) - 1 if points[0] > multiples[0] else 0
    for point, part in zip(points, parts, strict=True):
        while point > multiples[index + 1]:
            index += 1
        ahead = part * (point - multiples[index]) / (multiples[index + 1] - multiples[index])
        masses[index + 1] += ahead
        masses[index] += part - ahead


def _poisson(expected: Ball, number: int) -> Ball:
    """Return a bound of the probability of at least so many jumps."""
    return (expected**number / math.factorial(number)).min(arb(1))


def _rising(first: int, final: int, ratio: float) -> list[int]:
    """Return whole numbers from the first on, each about this many times the one before, the last at least the final.

    Examples
    --------
    >>> _rising(10, 15, 1.2)
    [10, 12, 15]
    """
    numbers = [first, max(first + 1, math.ceil(ratio * first))]
    while numbers[-1] < final:
        numbers.append(max(numbers[-1] + 1, math.ceil(ratio * numbers[-1])))
    return numbers


def _rounded(value: float, length: int = _DIGITS) -> int:
    """Return a whole number that is at least the value, and has few binary digits.

    Examples
    --------
    >>> _rounded(17), _rounded(5)
    (24, 6)
    """
    digits, exponent = math.frexp(max(value, 1.0))
    return math.ceil(math.ldexp(math.ceil(math.ldexp(digits, length)), exponent - length))


def _frame(summand: Summand, copies: int, fineness: float, ratio: float) -> _Frame:
    """Return about the best lattice; any would do."""
    spend(5_000 + len(summand.values))
    each = -(-len(summand.values) // _GROUPS)
    rows = []
    for start in range(0, len(summand.values), each):
        masses = [max(float(mass), 1e-300) for mass in summand.probabilities[start : start + each]]
        whole = math.fsum(masses)
        rows.append((math.fsum(map(mul, map(float, summand.values[start : start + each]), masses)) / whole, whole))

    def lift(last: int, pull: float) -> tuple[float, float]:
        """Return how much ln φ(2θ)ⁿ of the first values is beyond 2θ times their mean, and a deviation."""
        whole = math.fsum([mass for _, mass in rows[:last]])
        mean = math.fsum([mass * value for value, mass in rows[:last]]) / whole
        deviation = _deviation(rows[:last], mean, 0.0)
        for _ in range(3):  # a long tail to the left does not count
            tilt = pull / (deviation * math.sqrt(copies))
            if tilt * (rows[last - 1][0] - mean) > 300:
                break
            deviation = min(deviation, _deviation(rows[:last], mean, tilt))
        tilt = 2 * pull / (deviation * math.sqrt(copies))
        if tilt * (rows[last - 1][0] - mean) > 300:
            return math.inf, deviation
        turns = [(tilt * (value - mean), mass) for value, mass in rows[:last]]
        return copies * math.fsum([mass * (math.expm1(turn) - turn) for turn, mass in turns]), deviation

    for pull in _PULLS:
        last = len(rows)
        if lift(last, pull)[0] <= 2 * pull**2 + _LIFT:
            break
    else:
        low = bisect_right(rows, (0.0, math.inf)) + 1
        last = bisect_left(range(low, len(rows)), True, key=lambda last: lift(last, pull)[0] > 2 * pull**2 + _LIFT)
        last += low - 1
    deviation = lift(last, pull)[1]
    density = min(max(_DENSITY / max(fineness, 1e-9), _FEWEST), _MOST)
    step = deviation / density
    dense = _DENSE * round(density)
    level, largest = rows[last - 1][0] / step, math.ceil(float(summand.values[-1]) / step) + 1
    calm = (*(-each for each in _spaced(_rounded(-_lowest(rows, copies, deviation) / step, 1), dense)[:0:-1]),)
    calm += (*_spaced(_rounded(largest if last == len(rows) else 0.7 * level), dense),)
    jumps = _rising(calm[-1], largest, ratio)[1:] if calm[-1] < largest else []
    if (size := len(calm) + len(jumps)) > _MOST_MULTIPLES:
        raise RangeError(f"a lattice has at most {_MOST_MULTIPLES:,} multiples, and this one has {size:,}")
    tilt = pull / (deviation * math.sqrt(copies)) * step
    return _Frame(step, calm, jumps, tilt, 2 * _rounded((_CLEAR + 2 * pull**2 + _LIFT) / tilt / 2) + 1)


def _lowest(rows: Sequence[tuple[float, float]], copies: int, deviation: float) -> float:
    """Return a value below which there is so little that it may be raised."""
    allowed = _RAISED * deviation / math.sqrt(copies)
    mass = raised = 0.0
    for (value, more), (after, _) in pairwise(rows):
        mass += more
        raised += mass * (after - value)
        if raised > allowed:
            return value
    return rows[-1][0]


def _deviation(rows: Sequence[tuple[float, float]], mean: float, tilt: float) -> float:
    """Return the deviation of values tilted by e^{θ·value}."""
    weights = [mass * math.exp(tilt * (value - mean)) for value, mass in rows]
    whole = math.fsum(weights)
    first = math.fsum([weight * (value - mean) for weight, (value, _) in zip(weights, rows, strict=True)]) / whole
    second = math.fsum([weight * (value - mean) ** 2 for weight, (value, _) in zip(weights, rows, strict=True)]) / whole
    return math.sqrt(max(second - first**2, 1e-300))


def _spaced(reach: int, dense: int) -> list[int]:
    """Return whole numbers from 0 on, with twice the distance each time the number doubles, the last at least reach.

    Examples
    --------
    >>> _spaced(9, 4)
    [0, 1, 2, 3, 4, 6, 8, 12]
    """
    numbers = [0, 1]
    while numbers[-1] < reach:
        numbers.append(numbers[-1] + (1 << (numbers[-1] // dense).bit_length()))
    return numbers
