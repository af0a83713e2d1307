"""Pairs of examples that join steps by themselves: an epoch of an allocation, and a Poisson step.

None of them has a name that a certificate could use, and each is one direction, whose exchanged pair is the other one
(docs/theory/samplers.md). For an epoch, W is moved to multiples of a step h with its mean kept, which is larger in
convex order. Multiples above a level are *jumps*. With μ their measure and R_m(u) = E[(M − u)₊; no jump] for m copies,

    E[(W₁ + … + Wₙ − y)₊]  =  h · Σ_k  C(n, k) · ∫ R_{n−k}(y/h − j) μ*ᵏ(dj),

so that one tilt need only serve the values that are not jumps (docs/theory/certificates.md, section 6).
"""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate, pairwise
from operator import mul
from typing import Any

from flint import arb, ctx

from shoal.errors import RangeError
from shoal.proofs.balls import ZERO, Ball, Summand, ball, gather, normal, total
from shoal.proofs.cells import Edge, celled, check_cells, gaussian_divergence, gaussian_edges
from shoal.proofs.claim import DominatingPair, choice, count, double
from shoal.proofs.lattice import LatticeMeasure, LatticeSum, Roots, Turns, ramp
from shoal.proofs.transforms import log_moments
from shoal.proofs.work import keep, spend

_REVERSED = {"remove": "add", "add": "remove", "replace": "replace"}
FINENESS = 0.003
"""How fine the lattice of one round is: a finer one takes longer and lowers ε."""
# Where an example is replaced, every ε has a lattice of its own, and for many rounds it is coarser by this number.
_COARSER = 1.7
_RATIOS = 1.008, 1.02  # of a large value to the one before, finer and coarser: more values take longer and lower ε
# The sum of this number of steps or fewer, or with less noise, is split by its largest term, which is slower.
_FEW, _LITTLE = 32, 0.3
_APART = 1.02, 1.03  # of a loss far out to the one before, with noise below 1: closer losses take longer and lower ε
_FARTHEST = 600.0  # at larger losses the steps count as known
_MOST_EXACT = 2**1000  # the largest numerator and denominator of a rate: longer integers would take unbounded time
# Steps per standard deviation of W are the first number over the fineness, between the others: more of them cost time,
# and fewer of them raise δ.
_DENSITY, _FEWEST, _MOST = 0.3, 12.0, 160.0
_DENSE = 4  # up to this many standard deviations all multiples are used, up to twice as far every second one, and so on
# R is computed this many standard deviations below and above the mean of the sum. Beyond, a bound from there is close
# enough, because a sum that far from its mean is rare.
_LOW, _HIGH = 5.0, 13.0
_GRAIN = 40  # points per standard deviation of a sum whose chords replace R where many y are asked
# The ratio of neighbouring jumps, of two jumps together and of more, is this power of the ratio for one jump.
_TWO, _MORE = 3, 7
_MOST_JUMPS = 12  # more jumps than this are charged
_SHARE = 1e-5  # numbers of jumps whose charge is below this part of the result are charged and not computed
# θ times the standard deviation of the sum: the first that keeps ln φ(2θ)ⁿ within the lift of a normal sum.
_PULLS, _LIFT = (4.0, 2.0), 15.0
_CLEAR = 35.0  # aliases are to stay below exp(−35), relative to φ(θ)ⁿ
# Values far below zero are raised so little that the mean of the sum grows by this part of a standard deviation.
_RAISED = 1e-5
_GROUPS = 200  # a lattice is chosen from about this many groups of neighbouring values
_MOST_MULTIPLES = 50_000  # the largest lattice; in certificates that shoal writes, lattices have a tenth of this size
_STEEPEST = 300.0  # exponents above this are not looked at: such a tilt is too large
_DIGITS = 2  # sizes of a lattice have this many binary digits, so that sums whose W are alike share one


def few_steps(steps: int, noise: float) -> bool:
    """Return whether the sum of an epoch is split by its largest term, instead of on a lattice."""
    return steps <= _FEW or noise < _LITTLE


class _DirectedPair(DominatingPair):
    """One direction of a round, whose exchanged pair is the other direction; `replace` is its own exchanged pair."""

    noise: float
    direction: str
    ceiling = math.inf

    def __post_init__(self) -> None:
        """Check the noise and the direction."""
        double(1e-6, 1e12, noise=self.noise)
        choice(_REVERSED, direction=self.direction)

    @property
    def reverse(self) -> "_DirectedPair | None":
        """The exchanged pair; none where that is the same."""
        if self.direction == "replace":
            return None
        return replace(self, direction=_REVERSED[self.direction])  # type: ignore[type-var]


@dataclass(frozen=True)
class AllocationPair(_DirectedPair):
    """One direction of one epoch: the victim joins one of `reports` steps, each with this noise on its sum."""

    reports: int
    noise: float
    direction: str
    cells: int
    reach: float
    _known: dict[Any, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Check the fields."""
        count(reports=self.reports)
        super().__post_init__()
        check_cells(self.cells, self.reach, 1e7)

    @property
    def apart(self) -> float:  # type: ignore[override]
        """Of a loss far out to the one before: rare large losses decide, where there is little noise."""
        return super().apart if self.noise >= 1 else _APART[self.direction == "replace"]

    @cached_property
    def _edges(self) -> list[Edge]:
        unit = 1 / ball(self.noise)
        above = ZERO if self.direction == "add" else unit
        below = ZERO if self.direction == "remove" else unit
        return gaussian_edges(above, below, ball(1.0), self.cells, self.reach)

    def summands(self, growth: Ball) -> list[Summand]:
        """Return what is added up over steps, in cells."""
        return [celled(self._edges, ball(1.0), growth)]

    def _sums(self, epsilon: float, fineness: float) -> "tuple[AllocationSums, Ball]":
        """Return the sum of all steps at this ε, and what its cells cost."""
        key = (epsilon, fineness, ctx.prec)
        if key not in self._known:
            (summand,) = self.summands(ball(epsilon).exp())
            turns = self._known.setdefault(ctx.prec, {})
            once = self.direction == "replace"
            coarse = once and fineness > FINENESS
            fine = fineness * (_COARSER if coarse else 1)
            ratio = _RATIOS[coarse]
            sums = AllocationSums(summand, self.reports, fineness=fine, ratio=ratio, many=not once, turns=turns)
            if once:  # no other ε has this sum
                return sums, summand.cost
            self._known[key] = sums, summand.cost
        return self._known[key]  # type: ignore[no-any-return]

    def at(self, epsilon: float, *, fineness: float) -> Ball:
        """Return a ball whose upper end is at least δ(ε), from this ε alone.

        With X − λ = (X − 1) − (λ − 1) and 1 − λX = λ·((1 − X) − (1 − 1/λ)), one sum serves the curve of either.
        """
        growth = ball(epsilon).exp()
        separation = (2 if self.direction == "replace" else 1) / ball(self.noise)
        best = gaussian_divergence(separation, ball(epsilon))  # the steps are known
        if self.reports == 1 or epsilon > _FARTHEST:
            return best
        if few_steps(self.reports, self.noise):
            return min(best, super().at(epsilon, fineness=fineness))
        sums, cost = self._sums(epsilon if self.direction == "replace" else 0.0, fineness)
        if self.direction == "replace":
            value = sums.upper(ZERO) / self.reports + cost
        elif self.direction == "remove":
            value = sums.upper(self.reports * (growth - 1)) / self.reports + cost
        else:
            value = growth * (sums.upper(self.reports * (1 - 1 / growth)) / self.reports + cost)
        return value if value < best else best


@dataclass(frozen=True)
class PoissonStepPair(_DirectedPair):
    """One direction of one step, which the victim joins with probability numerator/denominator."""

    numerator: int
    denominator: int
    noise: float
    direction: str

    def __post_init__(self) -> None:
        """Check the fields."""
        count(1, _MOST_EXACT, denominator=self.denominator)
        count(1, self.denominator, numerator=self.numerator)
        super().__post_init__()

    def at(self, epsilon: float, *, fineness: float) -> Ball:
        """Return a ball that contains δ(ε)."""
        separation, growth = 1 / ball(self.noise), ball(epsilon).exp()
        rate = ball(self.numerator) / self.denominator
        if self.direction == "remove":  # p·E[(X − κ)₊]
            return rate * gaussian_divergence(separation, (1 + (growth - 1) / rate).log())
        if self.direction == "add":  # c·E[(1 − μX)₊]
            left = 1 - growth * (1 - rate)
            if left <= 0:
                return ZERO
            if not left > 0:  # δ falls with ε, and here it is no more than what is left
                return left.upper()
            return left * gaussian_divergence(separation, (growth * rate / left).log())
        # What is summed up is positive beyond a point: off by η, this is too small by O(η²), the width of its ball.
        half = (1 - rate) * (growth - 1) / rate * (separation * separation / 2).exp() / 2
        point = (half + (half * half + growth).sqrt()).log() / separation
        value = normal(separation - point) - growth * normal(-separation - point)
        return rate * value - (1 - rate) * (growth - 1) * normal(-point)


class _Calm:
    """The measure of values that are not jumps, and sums of any number of copies of it."""

    def __init__(self, turns: Turns, masses: list[Ball], tilt: float) -> None:
        self.measure = LatticeMeasure(turns, masses, ball(tilt))
        self.mass = total(masses)
        floats = [max(float(mass), 0.0) for mass in masses]
        whole = math.fsum(floats)
        self.mean = math.fsum(map(mul, floats, turns.multiples)) / whole
        squares = [(multiple - self.mean) ** 2 for multiple in turns.multiples]
        self.variance = math.fsum(map(mul, floats, squares)) / whole
        self._sums: dict[int, _CalmSum] = {}

    def copies(self, number: int) -> "_CalmSum":
        """Return the sum of this number of copies."""
        if number not in self._sums:
            self._sums[number] = _CalmSum(self, number)
        return self._sums[number]


class _CalmSum:
    """R_m(u) = E[(M − u)₊; no jump] from above, for one number m of copies."""

    def __init__(self, calm: _Calm, copies: int) -> None:
        self.copies = copies
        self.slope = calm.mass**copies  # Pr(no jump): R falls no faster
        middle = copies * calm.mean
        deviation = math.sqrt(copies * calm.variance)
        self.low = math.floor(middle - _LOW * deviation)
        self.high = math.ceil(middle + _HIGH * deviation)
        self._sum = LatticeSum([(calm.measure, copies)], ramp)
        self._known: dict[int, Ball] = {}

    def upper(self, point: int) -> Ball:
        """Return an upper end of R at u = point."""
        if self.copies == 0:
            return arb(max(-point, 0))
        inside = min(max(point, self.low), self.high)
        if inside not in self._known:
            keep(2)
            self._known[inside] = self._sum.upper(inside)
        value = self._known[inside]
        # R does not rise, and falls by at most Pr(no jump) per step: (6.4).
        return value + (self.low - point) * self.slope if point < self.low else value

    def chord(self, point: int) -> Ball:
        """Return an upper end of R at u = point from few other points, because R is convex."""
        if not self.low < point < self.high:
            return self.upper(point)
        grain = max(1, math.floor((self.high - self.low) / (_GRAIN * (_LOW + _HIGH))))
        ahead = (point - self.low) % grain
        before = self.upper(point - ahead)
        if ahead == 0:
            return before
        after = self.upper(point - ahead + grain)
        return before + (after - before) * ahead / grain


class AllocationSums:
    """The sum of n copies of W, whose values rise; jumps are this ratio apart.

    Where `many` y are asked, few points serve all of them. `turns` has what sums with the same lattice share.
    """

    def __init__(
        self, summand: Summand, copies: int, *, fineness: float, ratio: float, many: bool, turns: dict[Any, Turns]
    ) -> None:
        self.copies = copies
        self.ratio = ratio
        self.many = many
        step, calm, jumps, tilt, nodes = _lattice(summand, copies, fineness, ratio)
        self.step = ball(step)
        multiples = [*calm, *jumps]
        spend(2 * len(summand.values) + len(multiples))
        masses = [arb(0)] * len(multiples)
        inverse = 1 / self.step
        gather([value * inverse for value in summand.values], summand.probabilities, multiples, masses)
        masses[multiples.index(0)] += (1 - total(summand.probabilities)).max(arb(0))
        if (calm, nodes) not in turns:
            turns[calm, nodes] = Turns(calm, Roots(nodes), shared=True)
        self._calm = _Calm(turns[calm, nodes], masses[: len(calm)], tilt)
        self._jumps = _Jumps(jumps, masses[len(calm) :])
        self._lists = {1: self._jumps}
        gains = [mass * max(multiple, 0) for mass, multiple in zip(masses, multiples, strict=True)]
        self._calm_gain = total(gains[: len(calm)])
        self._jump_gain = total(gains[len(calm) :])

    def upper(self, point: Ball) -> Ball:
        """Return a ball whose upper end is at least E[(W₁ + … + Wₙ − y)₊], for y = point ≥ 0."""
        place = point / self.step
        index = int(place.lower().floor().unique_fmpz())
        # Between two multiples it is linear in y.
        share = (place - index).max(arb(0)).min(arb(1))
        value = self._at(index)
        if not share.is_zero():
            value = (1 - share) * value + share * self._at(index + 1)
        return self.step * value

    def _at(self, index: int) -> Ball:
        """Return (6.2) over h at y = index·h."""
        value = self._calm.copies(self.copies).upper(index)
        if not self._jumps.multiples:
            return value
        expected = self.copies * self._jumps.mass
        for number in range(1, self.copies + 1):
            # (6.3): this many jumps or more, as (ΣW − y)₊ ≤ Σ(W − y/n)₊ ≤ ΣW₊
            own = self._jump_gain * _poisson(expected, number - 1)
            others = self._calm_gain * _poisson(expected, number)
            rest = (self.copies * (own + others)).upper()
            if number == _MOST_JUMPS or float(rest) <= _SHARE * float(value):
                return value + rest
            value += math.comb(self.copies, number) * self._with(number, index)  # (6.2)
        return value

    def _with(self, number: int, index: int) -> Ball:
        """Return ∫ R(u − j) over the measure of this number of jumps together, at u = index."""
        if number not in self._lists:
            ratio = self.ratio ** (_TWO if number == 2 else _MORE)
            self._lists[number] = self._jumps.and_more(self._lists[number - 1], ratio)
        jumps = self._lists[number]
        calm = self._calm.copies(self.copies - number)
        first = bisect_left(jumps.multiples, index - calm.high)
        final = bisect_right(jumps.multiples, index - calm.low)
        upper = calm.chord if self.many else calm.upper
        spend(20 + 3 * (final - first))
        value = jumps.before[first] * calm.upper(calm.high)
        for place in range(first, final):  # jumps that bring the others into their window
            value += jumps.masses[place] * upper(index - jumps.multiples[place])
        if final < len(jumps.multiples):  # below the window the bound is linear
            mass, moment = jumps.after[final]
            value += mass * calm.upper(calm.low) + (moment - mass * (index - calm.low)) * calm.slope
        return value


class _Jumps:
    """A measure on integers that rise, with sums over the first of them and over the last."""

    def __init__(self, multiples: list[int], masses: list[Ball]) -> None:
        kept = [index for index, mass in enumerate(masses) if not mass.is_zero()]
        self.multiples = [multiples[index] for index in kept]
        self.masses = [masses[index] for index in kept]
        self.mass = total(self.masses)

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
        gather(self.multiples, self.masses, multiples, masses)
        return _Jumps(multiples, masses)

    def and_more(self, other: "_Jumps", ratio: float) -> "_Jumps":
        """Return the sum of one of these jumps and one of the others, on fewer multiples with the mean kept."""
        one, two = self.gathered(ratio), other.gathered(ratio)
        spend(1.2 * len(one.multiples) * len(two.multiples))
        multiples = _rising(one.multiples[0] + two.multiples[0], one.multiples[-1] + two.multiples[-1], ratio)
        masses = [arb(0)] * len(multiples)
        for multiple, mass in zip(one.multiples, one.masses, strict=True):
            shifted = [multiple + more for more in two.multiples]
            start = max(bisect_left(multiples, shifted[0]) - 1, 0)
            gather(shifted, [mass * part for part in two.masses], multiples, masses, start)
        return _Jumps(multiples, masses)


def _poisson(expected: Ball, number: int) -> Ball:
    """Return a bound of the probability of at least so many jumps."""
    return (expected**number / math.factorial(number)).min(arb(1))


def _rising(first: int, final: int, ratio: float) -> list[int]:
    """Return integers from the first on, each about this many times the one before, the last at least the final."""
    numbers = [first, max(first + 1, math.ceil(ratio * first))]
    while numbers[-1] < final:
        numbers.append(max(numbers[-1] + 1, math.ceil(ratio * numbers[-1])))
    return numbers


def _rounded(value: float, length: int = _DIGITS) -> int:
    """Return an integer that is at least the value, and has few binary digits."""
    digits, exponent = math.frexp(max(value, 1.0))
    return math.ceil(math.ldexp(math.ceil(math.ldexp(digits, length)), exponent - length))


def _lattice(
    summand: Summand, copies: int, fineness: float, ratio: float
) -> tuple[float, tuple[int, ...], list[int], float, int]:
    """Return about the best lattice; every lattice gives a bound.

    That is its step, the multiples that are not jumps, the jumps, θ per step, and the number of nodes.
    """
    spend(5_000 + len(summand.values))
    rows = _grouped(summand)

    def lift(last: int, pull: float) -> tuple[float, float]:
        """Return how much ln φ(2θ)ⁿ of the first values exceeds 2θ times their mean, and a standard deviation."""
        kept = rows[:last]
        whole = math.fsum([mass for _, mass in kept])
        mean = math.fsum([mass * value for value, mass in kept]) / whole
        farthest = kept[-1][0] - mean
        logs = [(value - mean, math.log(mass)) for value, mass in kept]
        deviation = math.sqrt(log_moments(logs, 0.0)[2])
        for _ in range(3):  # a long tail to the left does not count
            tilt = pull / (deviation * math.sqrt(copies))
            if tilt * farthest > _STEEPEST:
                break
            deviation = min(deviation, math.sqrt(log_moments(logs, tilt)[2]))
        tilt = 2 * pull / (deviation * math.sqrt(copies))
        if tilt * farthest > _STEEPEST:
            return math.inf, deviation
        exponents = [(tilt * (value - mean), mass) for value, mass in kept]
        return copies * math.fsum([mass * (math.expm1(each) - each) for each, mass in exponents]), deviation

    def heavy(last: int, pull: float) -> bool:
        return lift(last, pull)[0] > 2 * pull**2 + _LIFT

    last = len(rows)
    pull = next((pull for pull in _PULLS if not heavy(last, pull)), None)
    if pull is None:  # one tilt does not serve all values: those beyond a level are jumps
        pull = _PULLS[-1]
        low = bisect_right(rows, (0.0, math.inf)) + 1
        last = low - 1 + bisect_left(range(low, len(rows)), True, key=lambda last: heavy(last, pull))
    deviation = lift(last, pull)[1]
    density = min(max(_DENSITY / max(fineness, 1e-9), _FEWEST), _MOST)
    step = deviation / density
    dense = _DENSE * round(density)
    largest = math.ceil(float(summand.values[-1]) / step) + 1
    left = _spaced(_rounded(-_lowest(rows, copies, deviation) / step, 1), dense)
    right = _spaced(_rounded(largest if last == len(rows) else 0.7 * rows[last - 1][0] / step), dense)
    calm = (*(-multiple for multiple in left[:0:-1]), *right)
    jumps = _rising(calm[-1], largest, ratio)[1:] if calm[-1] < largest else []
    size = len(calm) + len(jumps)
    if size > _MOST_MULTIPLES:
        raise RangeError(f"a lattice has at most {_MOST_MULTIPLES:,} multiples, and this one has {size:,}")
    tilt = pull / (deviation * math.sqrt(copies)) * step
    nodes = 2 * _rounded((_CLEAR + 2 * pull**2 + _LIFT) / tilt / 2) + 1
    return step, calm, jumps, tilt, nodes


def _grouped(summand: Summand) -> list[tuple[float, float]]:
    """Return mean and mass of groups of neighbouring values of W, in floating point."""
    size = -(-len(summand.values) // _GROUPS)
    rows = []
    for start in range(0, len(summand.values), size):
        values = map(float, summand.values[start : start + size])
        masses = [max(float(mass), 1e-300) for mass in summand.probabilities[start : start + size]]
        whole = math.fsum(masses)
        rows.append((math.fsum(map(mul, values, masses)) / whole, whole))
    return rows


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


def _spaced(reach: int, dense: int) -> list[int]:
    """Return integers from 0 on, with twice the distance each time the number doubles, the last at least reach."""
    numbers = [0, 1]
    while numbers[-1] < reach:
        numbers.append(numbers[-1] + (1 << (numbers[-1] // dense).bit_length()))
    return numbers
