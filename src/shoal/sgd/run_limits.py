"""What no bound for a run can beat: two neighbouring datasets, and events that tell them apart.

All examples but one pull the same way, and the one pulls the other way: the sum of its batch stands out. Three
statistics of an epoch see it: whether any sum exceeds a level (Chua et al., arXiv 2403.17673), what all sums add up to,
and something between (`soft_limit`). A batch with k empty slots lies k pulls above a full one, and stands out as well.
So the others pull less hard where slots are empty, and every placement of those is counted. Each pull and each level
gives a limit, which is proved in docs/theory/sgd.md, section 7, and docs/theory/samplers.md, section 6; the largest
counts.

**A level.** Given where the empty slots are, the sums are independent normal variables. So the probabilities that some
sum exceeds a level are a sum over all placements, a coefficient of a power of a polynomial (`Crowd`). Its terms are all
positive, so rounding stays small next to each of them.

**Between the sum and the maximum.** The statistic is f(Z₁) + … + f(Z_t) modulo N for a step function f with whole
values, which follows the likelihood ratio of one sum where that is small, and its logarithm where it is large. Its
distribution in both worlds is computed with a bound of all rounding. Whatever f and N are, it is a function of what is
seen, and so are those of all epochs together: what they contradict, no guarantee can say.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.checks import probability
from shoal.errors import ParameterError
from shoal.numerics.convolution import Convolution
from shoal.numerics.lattice import LatticeMeasure
from shoal.numerics.normal import cell_masses, upper_tail
from shoal.rounding import UNIT, slack
from shoal.sgd.run import Run

Floats = NDArray[np.float64]
Complex = NDArray[np.complex128]

_PULLS = (1.0, 0.75, 0.5, 0.25, 0.0)
_LEVELS = 24
_MANY = 4096
"""With more epochs than this, only the event that some epoch has such a sum is tried, and that none has."""
_MANY_SUMS = 10**5
"""With more sums than this, and empty slots among them, only others that do not pull at all are counted softly."""
_DOWN = 1 - 1e-8
_UP = 1 + 1e-8
"""They outweigh the rounding of the binomial probabilities of up to `_MANY` epochs, by twenty times."""
_TINY = 1e-290
"""What is less probable than this is counted as if it were as probable."""
_GOLDEN = (math.sqrt(5) - 1) / 2
_VANISHING = 1e-300
"""Smaller numbers lose digits: an upper bound is raised by a few of these."""
_MOST_ERROR = 0.05
_MOST_EMPTY = 640
_MOST_IN_ONE = 48
_MOST_BATCHES = 10**8
"""More empty slots would take long, and (1 + odds)⁻ᵇ would be too small for a double; more of them in one batch would
take long as well; more batches need more precision."""
_CELLS = 8192
_TAIL = 9.5
"""Into how many cells the line is cut, and how far beyond all means."""
_ABSOLUTE = 1e-280
_MOST_OFF = 0.01
"""More than what is too small for a double, and the largest relative error with which anything is claimed."""
_LINEAR = 8.0
_FINENESS = 40.0
_COPY = 8.0
"""Up to how many deviations of the sum f is linear; how many values a deviation has, and one of a single copy."""
_LOGS = 1 << 16
_FEWER_LOGS = 1 << 14
_LEAST_LOGS = 2.0
"""About how many values there are beyond, without empty slots and with; at least how many deviations a factor e has."""
_RARELY = 0.01
_LONGEST = 1 << 20
_LEFT_OUT = -48.0
"""Nodes below e to this power are left out, and charged; so are rare numbers of empty slots."""
_FARTHEST = 16.0
"""A victim that is farther from the others is seen in the maximum."""
_LOSSES = 500.0
_MOST_LOSSES = 1e5
"""Into how many parts a deviation of the loss of an epoch is divided; fewer for so many in all epochs together."""
_FAILED = 1e-3
"""The share of δ for the event that rests of losses add up to less than Hoeffding's inequality says."""


class Exceeding(NamedTuple):
    """The probabilities, from both sides, that no sum of an epoch exceeds the level, and that some sum does."""

    none_low: float
    none_high: float
    some_low: float
    some_high: float


def _error(reach: float) -> float:
    """Return the largest relative error of `upper_tail` at a difference of two numbers of at most this size.

    The point has an error of a few units of the reach, and the logarithm of the tail a slope of at most 1 + |point|.
    """
    return 16 * UNIT * (1 + reach) ** 2


@dataclass(frozen=True)
class Crowd:
    """The sums of an epoch, in standard deviations of their noise, above that of a full batch without the victim.

    There are `batches` of `size` slots, of which `empty` are empty in all, fewer than `size`; a
    sum is `spacing` higher for each empty slot.
    """

    batches: int
    size: int
    empty: int
    spacing: float

    def exceeding(self, level: float, *victims: float) -> tuple[Exceeding, ...] | None:
        """Return how likely it is that a sum exceeds the level ≥ 0, for each height of the victim's among full batches.

        None where the empty slots are too many to count them, or the batches for the precision of a double.
        """
        if self.empty == 0 or self.spacing == 0:
            error = 4 * _error(2 * level + 2 * max(map(abs, victims)))
            return tuple(self._alike(level, victim, error) for victim in victims) if error < _MOST_ERROR else None
        return self._placed(level, victims) if self.empty <= _MOST_EMPTY else None

    def _alike(self, level: float, victim: float, error: float) -> Exceeding:
        """All other sums have the same mean."""
        logarithm = (self.batches - 1) * _log_below(level) + _log_below(level - victim)
        least = logarithm * (1 + error)
        most = logarithm * (1 - error)
        tiny = _VANISHING * (self.batches + 1)
        return Exceeding(
            none_low=math.exp(least) * (1 - 4 * UNIT) if least > -690 else 0.0,
            none_high=min(1.0, math.exp(most) * (1 + 4 * UNIT) + tiny),
            some_low=-math.expm1(most) * (1 - 4 * UNIT),
            some_high=min(1.0, -math.expm1(least) * (1 + 4 * UNIT) + tiny),
        )

    def _placed(self, level: float, victims: tuple[float, ...]) -> tuple[Exceeding, ...] | None:
        """Sum over the placements of the empty slots."""
        most, left_out = self._most_in_a_batch()
        reach = 2 * level + max(map(abs, victims)) + (most + 1) * self.spacing
        error = self.batches * (_error(reach) + (4 * most + self.empty + 16) * UNIT)
        if error > _MOST_ERROR:
            return None
        odds = self.empty / (self.batches * self.size - self.empty)
        first = math.exp(-self.size * math.log1p(odds))  # the same for all, so that it cancels
        heights = np.asarray(level - self.spacing * np.arange(most + 1), np.float64)
        others = _Split.of(_weights(self.size, odds, most, first), heights)
        crowd = others.power(self.batches - 1, self.empty)
        weights = _weights(self.size - 1, odds, most, first)
        exceeding = []
        for victim in victims:
            whole = crowd.times(_Split.of(weights, heights - victim), self.empty)
            none = float(whole.none[self.empty])
            some = float(whole.some[self.empty])
            # All that was too small for a double adds up to less than 1e-290 of the whole.
            shares = none / (none + some), some / (none + some)
            low = math.exp(-3 * error) * (1 - left_out)
            high = math.exp(3 * error)
            ends = []
            for share in shares:
                least = max(0.0, share * low - 1e-290)
                greatest = min(1.0, share * high + left_out + 1e-290)
                ends.append((least, greatest))
            exceeding.append(Exceeding(*ends[0], *ends[1]))
        return tuple(exceeding)

    def _most_in_a_batch(self) -> tuple[int, float]:
        """Return a number of empty slots, and how likely it is at most that some batch has more of them.

        A batch holds some k + 1 of them with a probability of at most (b/(mb − 1))ᵏ⁺¹.
        """
        one = math.log(self.size) - math.log(self.batches * self.size - 1)
        for most in range(1, min(self.empty, self.size)):
            more = most + 1
            ways = math.lgamma(self.empty + 1) - math.lgamma(more + 1) - math.lgamma(self.empty - more + 1)
            logarithm = math.log(self.batches) + ways + more * one
            if logarithm + 1e-6 < math.log(_TINY):
                return most, math.exp(logarithm + 1e-6)
        return self.empty, 0.0


class _Split(NamedTuple):
    """Weights by the number of empty slots: where no sum exceeds the level, and where some sum does."""

    none: Floats
    some: Floats

    @classmethod
    def of(cls, weights: Floats, heights: Floats) -> "_Split":
        """Return the weights of one batch, where the level lies so much higher than the mean of its sum."""
        exceeds = np.array([upper_tail(height) for height in heights.tolist()])
        stays = np.array([upper_tail(-height) for height in heights.tolist()])
        return cls(weights * stays, weights * exceeds)

    def times(self, other: "_Split", most: int) -> "_Split":
        """Return the weights of both together, up to this many empty slots; all terms are positive."""
        none = np.convolve(self.none, other.none)[: most + 1]
        some = np.convolve(self.some, other.none + other.some) + np.convolve(self.none, other.some)
        return _Split(none, some[: most + 1])

    def power(self, times: int, most: int) -> "_Split":
        """Return the weights of this many batches."""
        power = None
        square = self
        while True:
            if times & 1:
                power = square if power is None else power.times(square, most)
            times >>= 1
            if not times:
                assert power is not None, "there is at least one other batch"
                return power
            square = square.times(square, most)


def _weights(size: int, odds: float, most: int, first: float) -> Floats:
    """Return C(size, k)·oddsᵏ times `first` for k up to `most`."""
    weights = np.full(most + 1, first)
    for index in range(1, most + 1):
        weights[index] = weights[index - 1] * ((size - index + 1) * odds / index) if index <= size else 0.0
    return weights


def _log_below(point: float) -> float:
    """Return the logarithm of the probability that a standard normal variable is below the point."""
    return math.log1p(-upper_tail(point)) if point > 0 else math.log(max(upper_tail(-point), _VANISHING))


class Victim(NamedTuple):
    """How much higher the victim's sum is than another full batch, in deviations of the noise.

    `one` and `other` are for the two worlds; `absent` is the probability that the victim is in
    no sum, in both worlds, rounded up if it is not exact.
    """

    one: float
    other: float
    absent: float = 0.0


class _Seen(NamedTuple):
    """The distribution of the statistic in both worlds; how wrong each mass may be: absolutely, and then relatively."""

    one: Floats
    other: Floats
    wrong: float
    close: float


def soft_limit(crowd: Crowd, victim: Victim, epochs: int, delta: float) -> float:
    """Return an ε that the statistics of independent epochs contradict at δ, in one direction or the other.

    Zero where there are too many empty slots, or too many sums for the precision of a double.

    The victim is what tells the two worlds apart.
    """
    if crowd.empty == 0 or crowd.spacing == 0:
        crowd = replace(crowd, empty=0, spacing=0.0)
    if crowd.empty > _MOST_EMPTY or crowd.batches > _MOST_BATCHES or max(victim.one, -victim.other) > _FARTHEST:
        return 0.0
    if len(_slots(crowd)[0]) > _MOST_IN_ONE:
        return 0.0
    best = max(_contradicted(_Statistic(crowd, victim), epochs, delta))
    # The best test of one epoch weighs the other world with e^ε.
    weight = math.exp(min(best / epochs, 300.0))
    weighed = _Statistic(crowd, victim, weight)
    return max(best, *_contradicted(weighed, epochs, delta))


def _contradicted(statistic: "_Statistic", epochs: int, delta: float) -> tuple[float, float]:
    """Return an ε that a statistic contradicts, in each direction."""
    seen = statistic.seen()
    if seen.close > _MOST_OFF:
        return 0.0, 0.0

    def limit(likely: Floats, rare: Floats) -> float:
        sure = np.maximum((likely - seen.wrong) * (1 - seen.close), 0.0)
        most = (np.maximum(rare, 0.0) + seen.wrong) * (1 + seen.close)
        kept = sure > 0
        return (_single if epochs == 1 else _many)(sure[kept], most[kept], epochs, delta)

    return limit(seen.one, seen.other), limit(seen.other, seen.one)


def _single(sure: Floats, most: Floats, _: int, delta: float) -> float:
    """Return the largest ln((P − δ)/Q) of all events, which are levels of the ratio."""
    order = np.argsort(most / sure, kind="stable")
    likely = np.cumsum(sure[order])
    rare = np.cumsum(most[order])
    rounding = 4 * UNIT * len(order)
    beyond = likely * (1 - rounding) - delta
    at_most = rare * (1 + rounding)
    best = float((beyond / at_most).max(initial=0.0))
    return max(0.0, math.log(best) - 8 * UNIT) if best > 1 else 0.0


def _many(sure: Floats, most: Floats, epochs: int, delta: float) -> float:
    """Return the ε of independent epochs: cells of about the same loss are taken together, and losses added up.

    A loss is a multiple of a step and a rest. The rests of all epochs are hardly ever below their mean by more than
    Hoeffding's inequality allows: but for a share of δ.
    """
    losses = np.log(sure / most)
    total = float(sure.sum())
    mean = float((sure * losses).sum()) / total if total else 0.0
    spread = math.sqrt(float((sure * (losses - mean) ** 2).sum()) / total) if total else 0.0
    if not spread or delta < _ABSOLUTE:
        return 0.0
    step = spread / min(_LOSSES, max(16.0, _MOST_LOSSES / math.sqrt(epochs)))
    positions, inverse = np.unique(np.floor(losses / step + 0.5).astype(np.int64), return_inverse=True)
    masses = np.asarray(np.bincount(inverse, sure), dtype=np.float64)
    others = np.asarray(np.bincount(inverse, most), dtype=np.float64)
    rests = np.log(masses / others) - step * positions
    middle = float((masses * rests).sum()) / float(masses.sum())
    reach = math.sqrt(epochs * -math.log(_FAILED * delta) / 2)
    below = float(rests.max() - rests.min()) * reach
    rounding = 64 * UNIT * epochs * (len(sure) + float(np.abs(losses).max()))
    masses = masses * (1 - 4 * UNIT * len(sure))
    parts = LatticeMeasure(step, positions, masses)
    least = Convolution([(parts, epochs)]).least_epsilon(delta * (1 + _FAILED))
    return max(0.0, least + epochs * middle - below - rounding)


class _Statistic:
    """The statistic of one epoch, and its distribution."""

    def __init__(self, crowd: Crowd, victim: Victim, growth: float = 1.0) -> None:
        self.crowd = crowd
        self.victim = victim
        self.growth = growth
        self.odds = crowd.empty / (crowd.batches * crowd.size - crowd.empty)
        self.counts, self.left_out = _slots(crowd)
        self.weights, self.victims = (
            _binomial(size, self.odds, len(self.counts)) for size in (crowd.size, crowd.size - 1)
        )
        shifts = (0.0, victim.one, victim.other, crowd.spacing * min(2, len(self.counts) - 1))
        self.cuts = np.linspace(min(shifts) - _TAIL, max(shifts) + _TAIL, _CELLS)
        self.fineness = max(_FINENESS, _COPY * math.sqrt(crowd.batches))
        middles = (self.cuts[1:] + self.cuts[:-1]) / 2
        self.index = self._values(np.concatenate((self.cuts[:1], middles, self.cuts[-1:])))
        reach = 3 * _LINEAR * self.fineness + int(self.index.max() - self.index.min())
        self.period = min(1 << math.ceil(math.log2(reach)), _LONGEST)

    def _values(self, points: Floats) -> NDArray[np.int64]:
        """Return f at each point; any choice is valid."""

        def ratio(weights: Floats, shift: float) -> Floats:
            shifts = shift + self.crowd.spacing * self.counts
            exponents = np.multiply.outer(points, shifts) - shifts**2 / 2
            return np.asarray(np.exp(np.minimum(exponents, 300.0)) @ weights)

        base = ratio(self.weights, 0.0)
        one = ratio(self.victims, self.victim.one) / base
        other = ratio(self.victims, self.victim.other) / base
        values = one - self.growth * other
        density = np.exp(-0.5 * points**2) * base
        density /= density.sum()
        heavy = np.argsort(-np.abs(values), kind="stable")
        calm = np.ones(len(points), dtype=np.bool_)
        calm[heavy[np.cumsum(density[heavy]) < _RARELY / self.crowd.batches]] = False
        middle = float((density * values)[calm].sum())
        square = float((density * (values - middle) ** 2)[calm].sum())
        sizes = np.abs(values) / math.sqrt(self.crowd.batches * square + 1e-300)
        logs = np.log(np.maximum(sizes / _LINEAR, 1.0))
        most = _FEWER_LOGS if self.crowd.empty else _LOGS
        slope = max(_LEAST_LOGS, most / self.fineness / (float(logs.max()) + 1e-3))
        return np.round(self.fineness * np.sign(values) * (np.minimum(sizes, _LINEAR) + slope * logs)).astype(np.int64)

    def _transform(self, shift: float) -> Complex:
        """Return the transform of the distribution of f(Z) for a normal Z with this mean."""
        masses = _all_masses(self.cuts - shift)
        folded = np.bincount(self.index % self.period, masses, self.period)
        return np.fft.rfft(folded)

    def seen(self) -> _Seen:
        """Return the distribution in both worlds."""
        crowd = self.crowd
        victim = self.victim
        copies = self.crowd.batches - 1
        base = np.array([self._transform(crowd.spacing * count) for count in self.counts.tolist()])
        error = 16 * UNIT * (math.log2(self.period) + 6)
        bounds = self.weights @ np.abs(base) + 2 * error
        log_bounds = copies * np.log(bounds)
        kept = np.flatnonzero(log_bounds > _LEFT_OUT)
        left = math.exp(max(float(np.delete(log_bounds, kept).max(initial=-math.inf)), -700.0))
        base = base[:, kept]
        bounds = bounds[kept]
        log_bounds = log_bounds[kept]
        worlds = np.array([self._joined(shift, base, kept) for shift in (victim.one, victim.other)])
        # The coefficient of xᵉ, from values on a circle; that of the same without f is the probability of e slots.
        turns = 2 * math.pi / _turns(crowd.empty) * np.arange(_turns(crowd.empty))
        totals = np.zeros((2, len(kept)), dtype=np.complex128)
        share = 0.0
        for turn in turns.tolist():
            powers = np.exp(1j * turn * self.counts)
            part = np.exp(-1j * turn * crowd.empty) / len(turns)
            one = (self.weights * powers) @ base
            others = part * np.exp(copies * np.log(np.where(one == 0, 1e-300, one)))
            totals += others * ((self.victims * powers) @ worlds)
            everything = np.exp(copies * np.log((self.weights * powers).sum()))
            share += float((part * everything * (self.victims * powers).sum()).real)
        spectra = np.zeros((2, self.period // 2 + 1), dtype=np.complex128)
        spectra[:, kept] = totals / share
        one_world, other_world = (np.fft.irfft(spectrum, self.period) for spectrum in spectra)
        # Of the power of the transforms, of products and sums, and of the inverse transform: over the bound of a node.
        rounding = 64 * UNIT * (crowd.batches * (4 + len(self.counts)) + len(turns))
        each_copy = np.minimum(2 * error / bounds, 0.9)
        all_copies = -np.expm1(copies * np.log1p(-each_copy))
        wrong = all_copies + rounding + 8 * error
        off = 2.002 / share * (float((np.exp(log_bounds) * wrong).sum()) / self.period + left)
        off += self.left_out + _aliases(crowd.empty) / share + _ABSOLUTE
        # A mass of f(Z) is off by a unit for each of its cells, if cuts are moved a little; with a shift, by more.
        reach = float(self.cuts[-1] - self.cuts[0]) + crowd.spacing * len(self.counts)
        shifted = 64 * UNIT * (4 + reach) * _CELLS / float(self.cuts[-1] - self.cuts[0])
        close = shifted * (2 + crowd.empty) + (_CELLS + 8 * len(self.counts) + 64) * UNIT * crowd.batches
        return _Seen(one_world, other_world, off, 2 * (close + rounding / share + self.left_out))

    def _joined(self, shift: float, base: Complex, kept: NDArray[np.int64]) -> Complex:
        """Return the transforms of the victim's batch for every number of empty slots; of another, if it is absent."""
        shifts = shift + self.crowd.spacing * self.counts
        there = np.array([self._transform(each)[kept] for each in shifts.tolist()])
        return np.asarray((1 - self.victim.absent) * there + self.victim.absent * base)


def _slots(crowd: Crowd) -> tuple[Floats, float]:
    """Return the numbers of empty slots of a batch that are counted, and how likely it is at most that one has more.

    A batch holds some k + 1 of them with a probability of at most (b/(tb − 1))ᵏ⁺¹.
    """
    if crowd.empty == 0:
        return np.zeros(1), 0.0
    each = math.log(crowd.size / (crowd.batches * crowd.size - 1))
    for most in range(1, min(crowd.empty, crowd.size)):
        ways = math.lgamma(crowd.empty + 1) - math.lgamma(most + 2) - math.lgamma(crowd.empty - most)
        logarithm = math.log(crowd.batches) + ways + (most + 1) * each + 1e-6
        if logarithm < _LEFT_OUT:
            return np.arange(most + 1.0), math.exp(logarithm)
    return np.arange(min(crowd.empty, crowd.size) + 1.0), 0.0


def _binomial(size: int, odds: float, count: int) -> Floats:
    """Return about the probabilities of the first numbers of successes; a common factor makes no difference."""
    weights = np.full(count, math.exp(-size * math.log1p(odds)))
    for index in range(1, count):
        weights[index] = weights[index - 1] * (max(size - index + 1, 0) * odds / index)
    return weights


def _turns(empty: int) -> int:
    """Return how many points of a circle tell the coefficient of xᵉ from later ones."""
    return empty + math.ceil(12 * math.sqrt(empty)) + 24 if empty else 1


def _aliases(empty: int) -> float:
    """Return a bound of the probability of e + `_turns` empty slots or more, if e are expected: Chernoff's."""
    if not empty:
        return 0.0
    ratio = 1 + _turns(empty) / empty
    return math.exp(empty * (ratio - 1 - ratio * math.log(ratio)))


def _all_masses(cuts: Floats) -> Floats:
    """Return the mass of the standard normal distribution below, between and above the cuts, ascending."""
    first = upper_tail(-float(cuts[0]))
    last = upper_tail(float(cuts[-1]))
    return np.concatenate(([first], cell_masses(cuts), [last]))


@lru_cache(maxsize=64)
def lower_bound(run: Run, *, delta: float) -> float:
    """Return an ε below which no (ε, δ) holds for this run, as a guarantee for all data.

    Examples
    --------
    >>> run = Run(examples=60_032, batch_size=64, noise_multiplier=0.8, adjacency="zero-out")
    >>> round(lower_bound(run, delta=1e-6), 2)
    6.06

    With 60,000 examples there are 32 empty slots, and a batch that has one hides the victim's:

    >>> run = Run(examples=60_000, batch_size=64, noise_multiplier=0.8, adjacency="zero-out")
    >>> round(lower_bound(run, delta=1e-6), 2)
    2.77
    """
    return run.sampler.lower_bound(run, probability(delta=delta))


def summed_limit(run: Run, delta: float) -> float:
    """Return the limit from what all vectors that are seen add up to: in any order, dependent or not."""
    vectors = run.steps if run.sums_only else run.examples
    moved = run.sensitivity * run.participations
    return _summed(moved * math.sqrt(run.epochs / vectors) / run.seen_multiplier, delta)


def permutation_limit(run: Run, delta: float) -> float:
    """Return the greatest of the limits from all sums together, from those that stand out, and from all of them softly.

    For fresh permutations of all slots: which batches have empty ones is as random as all else.
    """
    # Where every noised gradient is seen, those of the examples are, and no slot is empty.
    count, empty = (run.steps, run.slots - run.examples) if run.sums_only else (run.examples, 0)
    return max(summed_limit(run, delta), _crowded(run, count, empty, 0.0, delta))


def loader_limit(run: Run, *, delta: float, drop_last: bool = False) -> float:
    """Return an ε below which no (ε, δ) holds for batches from a loader that shuffles, such as torch's DataLoader.

    In every epoch it draws a fresh permutation of the examples and cuts it into batches of b. The last one has those
    that are left, at the end of the epoch, and everybody knows how many; or it is dropped. So no slot is empty: what
    the other examples add to a sum is known, if all of them pull the same way, and the victim stands out.
    """
    delta = probability(delta=delta)
    full, left = divmod(run.examples, run.batch_size)
    if run.adjacency == "add-remove" or not run.sums_only or not full:
        raise ParameterError(
            "a loader's limit is for sums of batches of a public number of examples; use adjacency "
            '"replace" or "zero-out", and noise="batch"'
        )
    run = Run(
        examples=run.examples,
        batch_size=run.batch_size,
        noise_multiplier=run.multiplier,
        epochs=run.epochs,
        adjacency=run.adjacency,
    )
    if drop_last and left:
        return _crowded(run, full, 0, left / run.examples * (1 + slack(4)), delta)
    return max(summed_limit(run, delta), _crowded(run, run.steps, 0, 0.0, delta))


def allocation_limit(run: Run, delta: float) -> float:
    """Return the limit for an example that joins one random step of each epoch: that of the exact pair, nearly."""
    if run.participations > 1:  # whether one of each block, or any others, is not known
        return summed_limit(run, delta)
    return max(summed_limit(run, delta), _crowded(run, run.steps, 0, 0.0, delta, pulls=(0.0,)))


def _crowded(
    run: Run, count: int, empty: int, absent: float, delta: float, *, pulls: tuple[float, ...] = _PULLS
) -> float:
    """Return the greater limit of one sum that stands out and of all sums softly, for the pull that has the greatest.

    The victim is in one of `count` sums, or with the probability `absent` in none; `empty` slots are at random.
    """
    multiplier = run.seen_multiplier

    def victim(pull: float) -> Victim:
        other = (-1.0 if run.adjacency == "replace" else 0.0) + pull
        return Victim((1 + pull) / multiplier, other / multiplier, absent)

    def crowd(pull: float) -> Crowd:
        return Crowd(count, run.batch_size, empty, pull / multiplier)

    def standing_out(pull: float, level: float) -> float:
        one, other, _ = victim(pull)
        exceeding = crowd(pull).exceeding(level, one, other, 0.0)
        if exceeding is None:
            return 0.0
        here, there = (_mixed(each, exceeding[2], absent) for each in exceeding[:2])
        return _distinguished(here, there, run.epochs, delta)

    def highest(pull: float, level: float | None = None) -> tuple[float, float]:
        """Return the greatest value of this pull, at about this level or any, and the level."""
        top = (1 + pull) / multiplier + 9.0
        if level is None:
            return _greatest(lambda point: standing_out(pull, point), 0.0, top, _LEVELS, 12 if empty == 0 else 0)
        return _greatest(lambda point: standing_out(pull, point), max(0.0, level - 0.5), level + 0.5, 2, 4)

    # Where no slot is empty, others hide the victim least if they pull as hard as they can.
    pulls = pulls if empty else pulls[:1]
    (value, level), pull = max((highest(pull), pull) for pull in pulls)
    if empty and value:
        low = max(0.0, pull - 0.25)
        high = min(1.0, pull + 0.25)
        value, _ = _greatest(lambda point: highest(point, level)[0], low, high, 4, 4)
    soft = pulls if count <= _MANY_SUMS else pulls[-1:]
    return max(value, *(soft_limit(crowd(pull), victim(pull), run.epochs, delta) for pull in soft))


def _mixed(there: Exceeding, gone: Exceeding, absent: float) -> Exceeding:
    """Return the probabilities where the victim is in no sum with this probability."""
    mixed = []
    for one, other in zip(there, gone, strict=True):
        mixed.append((1 - absent) * one + absent * other)
    return Exceeding(*mixed)


def _greatest(value: Callable[[float], float], low: float, high: float, parts: int, fine: int) -> tuple[float, float]:
    """Return about the greatest value between two points, and where: on a grid, and then by golden sections.

    There is a peak for every number of epochs with such a sum, so the sections begin at several points.
    """
    points = [low + (high - low) * index / parts for index in range(parts + 1)]
    tried = [(value(point), point) for point in points]
    for index in sorted(range(parts + 1), key=tried.__getitem__, reverse=True)[: max(1, parts // 8)]:
        left = points[max(0, index - 1)]
        right = points[min(parts, index + 1)]
        for _ in range(fine):
            inner = [right - _GOLDEN * (right - left), left + _GOLDEN * (right - left)]
            values = [value(point) for point in inner]
            tried += zip(values, inner, strict=True)
            left, right = (left, inner[1]) if values[0] >= values[1] else (inner[0], right)
    return max(tried)


def _summed(separation: float, delta: float) -> float:
    """Return the ε of a normal variable whose mean moves by this many standard deviations, rounded down."""

    def least(epsilon: float) -> float:
        """Return δ(ε), rounded down: e^ε·Φ(−y) ≤ φ(x)/y for x = ε/μ − μ/2 and y = x + μ."""
        near = epsilon / separation - separation / 2
        far = near + separation
        error = slack(64) * (1 + far) ** 2
        if error > 1e-3:
            return 0.0
        lost = math.exp(-(near**2) / 2) / math.sqrt(2 * math.pi) / far
        if epsilon < 600 and far < 35:
            lost = min(lost, math.exp(epsilon) * upper_tail(far))
        return upper_tail(near) * (1 - error) - lost * (1 + error * (1 + epsilon))

    low = 0.0
    high = separation * (separation / 2 + 40)
    while high - low > 1e-10 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if least(middle) >= delta else (low, middle)
    return low


def _distinguished(one: Exceeding, other: Exceeding, epochs: int, delta: float) -> float:
    """Return an ε that the number of epochs with a sum above the level contradicts, in either direction."""
    if epochs > _MANY:
        # (1 − p)ᵀ, from above in one world and from below in the other.
        one_none = math.exp(epochs * math.log1p(-min(one.some_low, 0.5)))
        other_none = math.exp(epochs * math.log1p(-other.some_high)) if other.some_high < 1 else 0.0
        some = -math.expm1(epochs * math.log1p(-other.some_high)) if other.some_high < 1 else 1.0
        return max(_ratio(1 - one_none, some, delta), _ratio(other_none, one_none, delta))
    # At least each number of epochs; and at most each, which is likelier where the victim stands out less.
    tails = (
        (_counts(one, epochs, high=False)[::-1], _counts(other, epochs, high=True)[::-1]),
        (_counts(other, epochs, high=False), _counts(one, epochs, high=True)),
    )
    best = 0.0
    for first, second in tails:
        likely = np.cumsum(first)
        rare = np.cumsum(second)
        index = int(np.argmax((likely * _DOWN - delta) / (rare + _TINY)))
        best = max(best, _ratio(float(likely[index]), float(rare[index]), delta))
    return best


def _counts(each: Exceeding, epochs: int, *, high: bool) -> NDArray[np.float64]:
    """Return the probability of every number of epochs with such a sum: all of them from above, or all from below."""
    some, none = (each.some_high, each.none_high) if high else (each.some_low, each.none_low)
    less = 1 - (each.some_low if high else each.some_high)  # the more precise one where it is nearly all
    none = min(none, less) if high else max(none, less)
    numbers = np.arange(epochs + 1)
    if some <= 0 or none <= 0:
        return np.where(numbers == (0 if some <= 0 else epochs), max(some, none, 0.0) ** epochs, 0.0)
    logs = np.array([math.lgamma(number + 1) for number in range(epochs + 1)])
    ways = logs[-1] - logs - logs[::-1]
    logarithms = ways + numbers * math.log(some) + numbers[::-1] * math.log(none)
    return np.asarray(np.exp(logarithms))


def _ratio(first: float, second: float, delta: float) -> float:
    """Return ln((first − δ)/second), rounded down, if that is positive."""
    if first * _DOWN <= delta:
        return 0.0
    likely = math.log(first * _DOWN - delta)
    rare = math.log(second * _UP + _TINY)
    return max(0.0, (likely - rare) * (1 - 1e-12) - 1e-12)
