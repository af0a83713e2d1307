"""Noise on a number in an interval, among n shuffled reports: δ(ε) and ε(δ) of its privacy blanket, from both sides.

`ReachedByNoise` is a lower limit of δ(ε) that real inputs reach with noise on a grid, from the cells as they are drawn.
The victim holds an end of the interval, all others hold the lower end, the upper one, or the middle. Cells are put
together into pools, which can only hide something: δ(ε) is at least that of the pools, E[(W₁ + … + Wₙ)₊]/n with the
finite W = (R₀ − e^ε·R₁)/R, which is bounded from below (docs/theory/numbers.md, section 2).
"""

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.checks import SMALLEST_DELTA
from shoal.numerics.noise import Cells, NoiseRatio, epsilon_alone, summand
from shoal.numerics.profile_grid import Brackets, DeltaGrid, Mesh, each, grid_of, remembered
from shoal.numerics.split_sum import Piece, lower_sum, rough_log_sum, split, upper_sum
from shoal.pairs import ClonePair, gaussian_guess
from shoal.privacy_profile import UpperProfile
from shoal.rounding import slack
from shoal.searches import bisect_safe, bracketed, rough_root, smallest_safe

Array = NDArray[np.float64]

_LONELY = 1e-6
"""If fewer other reports than this are expected on the blanket, δ is that of one report alone."""
_LARGEST = 600.0
"""For a larger ε, e^ε times a ratio may overflow, and δ is that of one report alone."""
_PAST = 1e-6
"""How far beyond its estimate the search for ε looks for a safe one, relatively: closer takes more evaluations."""
_KNOTS = 2.0
"""How much coarser than asked for the knots of a grid are: each takes longer than that of any other mechanism."""
_GAPS = 1 / 6
"""Cells whose gap is below this share of the goal, relative to δ, are not divided: it is then what smoothing adds."""
_PRECISION = 1e-5
_LOOSEST = 1e-3
"""What smoothing may add to ε, relatively, and at most to δ: the number of nodes is the inverse of its root."""
_ROUNDS = 1e-4
"""What smoothing may add to δ of one of many rounds: fewer digits than for a single question."""
_FLAT = 0.1
"""The least of ε·|d log δ/dε| that counts: near ε = 0, δ hardly changes."""
_MOVE = 1e-2
"""The relative change of ε over which the slope of log δ is looked at."""
_NEAR = 1e-3
_NEXT = 1e-9
"""How far below the upper end of ε the lower one is looked for at first, at most; and next to the largest loss."""
_ATTEMPTS = 24
"""How often the search for a lower end moves farther away."""
_LOWER_PRECISION = 1e-4
_CLOSE = 1e-5
"""What smoothing may take from δ, and how close an ε is looked for, relatively: fewer nodes against a lower limit."""
_TINY = 1e-6
"""For a smaller δ the answer at this one counts, too."""
_TRIES = 30
"""How many ε are tried for the last digits."""
_LARGEST_EPSILON = 600.0
"""For a larger ε, e^ε times a probability may overflow, and nothing is claimed."""
_LARGEST_VALUE = 1e60
"""A larger W counts as this one, which can only lower δ; a smaller one than its negative, as no report at all."""


@dataclass(frozen=True)
class NoiseProfile(UpperProfile):
    """The profile of n values in [0, 1], each with noise that has this likelihood ratio of one report."""

    reports: int
    ratio: NoiseRatio

    bracketed = True
    costly = True
    no_renyi = "the Rényi divergence of the blanket of Gaussian noise is not computed; use epsilon or delta"

    @property
    def ceiling(self) -> float:
        """The largest loss, from which on δ is zero; or infinity."""
        return self.ratio.reach

    def delta(self, epsilon: float) -> float:
        """Return δ(ε), rounded up; never more than one report alone has."""
        return self._upper(epsilon, coarse=False)

    def _upper(self, epsilon: float, *, coarse: bool) -> float:
        """Return δ(ε), rounded up."""
        if epsilon >= self.ceiling:
            return 0.0
        alone = self.ratio.alone(epsilon)
        outline = self._outline(epsilon, coarse=coarse)
        if outline is not None:
            values, masses = summand(outline.cells.above, epsilon, side=1)
            total = upper_sum(values, masses, self.reports, outline.pieces)
            shuffled = total * math.exp(epsilon) / self.reports * (1 + slack(16))
            shuffled += outline.cells.cost
            alone = min(alone, shuffled)
        return max(alone, SMALLEST_DELTA)

    def delta_below(self, epsilon: float) -> float:
        """Return δ(ε), rounded down."""
        return self._lower(epsilon, coarse=False)

    def _lower(self, epsilon: float, *, coarse: bool) -> float:
        """Return δ(ε), rounded down."""
        if epsilon >= self.ceiling:
            return 0.0
        # No other report is on the blanket with probability (1 − γ)ⁿ⁻¹.
        log_rest = (self.reports - 1) * math.log(self.ratio.rest)
        least = math.exp(log_rest - slack(64) * (self.reports + abs(log_rest)))
        least *= self.ratio.alone_below(epsilon)
        outline = self._outline(epsilon, coarse=coarse)
        if outline is not None:
            values, masses = summand(outline.cells.below, epsilon, side=-1)
            total = lower_sum(values, masses, self.reports, outline.pieces)
            least = max(least, total * math.exp(epsilon) / self.reports * (1 - slack(16)))
        return least if least > SMALLEST_DELTA else 0.0

    def _outline(self, epsilon: float, *, coarse: bool = False) -> "_Outline | None":
        """Return how to sum at ε, or nothing where δ is that of one report alone."""
        if self.lonely or epsilon > _LARGEST:
            return None
        if coarse:
            return _coarse(self.reports, self.ratio, epsilon)
        return _outline(self.reports, self.ratio, epsilon)

    @cached_property
    def lonely(self) -> bool:
        """Whether hardly anybody can be expected to hide a report."""
        expected = self.reports * (1 - self.ratio.rest)
        return self.reports == 1 or expected < _LONELY or self.ratio.cells(0.0) is None

    @cached_property
    def spread(self) -> float:
        """The standard deviation of the sum at ε = 0, without the rarest values."""
        cells = self.ratio.cells(0.0)
        assert cells is not None
        values, masses = summand(cells.below, 0.0, side=-1)
        square = float((masses * np.minimum(values, 1.0) ** 2).sum())
        return math.sqrt(self.reports * square)

    def _rough(self, epsilon: float) -> float:
        """Return roughly log δ(ε)."""
        alone = math.log(max(self.ratio.alone(epsilon), SMALLEST_DELTA))
        rough = _rough(self.reports, self.ratio, epsilon)
        return alone if rough is None else min(alone, rough.log_delta)

    def epsilon(self, delta: float) -> float:
        """Return ε(δ), rounded up; for δ = 0 the largest loss, or infinity."""
        if delta < SMALLEST_DELTA:
            return self.ceiling
        return _searched(self, delta)

    def bracket(self, delta: float) -> tuple[float, float]:
        """Return ε(δ) of the blanket, rounded down and up."""
        return bracketed(self.epsilon, self._least, delta)

    def _least(self, delta: float, upper: float) -> float:
        """Return an ε at which the lower end of δ is at least `delta`, close to `upper`."""
        outline = self._outline(upper)
        slope = -1 / upper if outline is None else outline.slope
        width = 0.0
        before = (0.0, math.inf)
        for _ in range(_ATTEMPTS):
            reached = self.delta_below(upper - width)
            if reached >= delta:
                return upper - width
            lacking = math.log(delta / reached) if reached > 0 else math.inf
            following = 1.05 * lacking / -slope
            if lacking < before[1] < math.inf:  # as the last two points say
                following = width + 1.05 * lacking * (width - before[0]) / (before[1] - lacking)
            before = width, lacking
            near = min(_NEAR * upper, 0.01 * (self.ceiling - upper) + _NEXT * upper)
            width = min(max(following, 1.2 * width), max(8 * width, near))
            if width >= upper:
                break
        return 0.0

    def alone(self, delta: float) -> float:
        """Return an ε that one report alone has at this δ."""
        return epsilon_alone(self.ratio, delta)

    def grid(self, mesh: Mesh) -> DeltaGrid:
        """Return lower and upper bounds of δ at knots of the grid."""
        goal = _KNOTS * mesh.goal
        grid = grid_of(self._uppers, mesh._replace(goal=goal, tolerance=_GAPS * goal))
        return grid._replace(below=lambda points: self._lowers(points)[0])

    @cached_property
    def _uppers(self) -> Brackets:
        """Upper bounds of δ at each ε, none of which is computed twice, in place of both ends."""
        return remembered(each(lambda epsilon: 2 * (self._upper(epsilon, coarse=True),)))

    @cached_property
    def _lowers(self) -> Brackets:
        """Lower bounds of δ at each ε, in place of both ends."""
        return remembered(each(lambda epsilon: 2 * (self._lower(epsilon, coarse=True),)))

    def renyi(self, orders: Array) -> Array:
        """Return upper bounds of the Rényi divergence: those of the strong clones, where there is an ε₀."""
        if math.isinf(self.ceiling):
            return super().renyi(orders)
        return ClonePair(self.reports, self.ceiling, "strong-clones").renyi(orders)


class _Outline(NamedTuple):
    """How to sum at one ε: cells of the ratio, pieces of the sum, and roughly log δ."""

    cells: Cells
    pieces: tuple[Piece, ...]
    log_delta: float
    slope: float


@lru_cache(maxsize=256)
def _outline(reports: int, ratio: NoiseRatio, epsilon: float) -> _Outline | None:
    """Return how to sum at ε, smoothed so much as the slope of log δ allows."""
    rough = _rough(reports, ratio, epsilon)
    beyond = _rough(reports, ratio, epsilon * (1 + _MOVE))
    if rough is None:
        return None
    steepness = _FLAT
    if beyond is not None and math.isfinite(beyond.log_delta):
        steepness = max((rough.log_delta - beyond.log_delta) / _MOVE, steepness)  # −ε·d log δ/dε
    precision = min(_PRECISION * steepness, _LOOSEST)
    values, masses = summand(rough.cells.above, epsilon, side=1)
    pieces = split(values, masses, reports, precision)
    return rough._replace(pieces=pieces, slope=-steepness / max(epsilon, 1e-300))


@lru_cache(maxsize=4096)  # the lower ends of a grid are computed after all upper ends
def _coarse(reports: int, ratio: NoiseRatio, epsilon: float) -> _Outline | None:
    """Return how to sum at ε for one of many rounds, to fewer digits."""
    return _rough(reports, ratio, epsilon, _ROUNDS)


@lru_cache(maxsize=256)
def _rough(reports: int, ratio: NoiseRatio, epsilon: float, precision: float = _LOOSEST) -> _Outline | None:
    """Return cells that reach far enough for δ(ε), and the pieces of the sum."""
    log_delta = math.log(max(ratio.alone(epsilon), SMALLEST_DELTA))
    # One large W alone makes the sum positive against the mean 1 − e^ε of the others.
    needed = epsilon + math.log1p(-(reports - 1) * math.expm1(-epsilon))
    least = math.log(max(ratio.alone(needed), SMALLEST_DELTA))
    outline = None
    for _ in range(3):
        cells = ratio.cells(log_delta)
        if cells is None:
            return None
        values, masses = summand(cells.above, epsilon, side=1)
        if values[-1] <= 0:
            return None
        pieces = split(values, masses, reports, precision)
        log_delta = min(log_delta, rough_log_sum(pieces) + epsilon - math.log(reports))
        outline = _Outline(cells, pieces, log_delta, -1.0)
        log_delta = max(log_delta, least)
        if ratio.cells(log_delta) is cells:
            break
    return outline


def _searched(profile: NoiseProfile, delta: float) -> float:
    """Return ε(δ), rounded up."""
    alone = profile.alone(delta)
    if alone == 0 or profile.lonely:
        return alone

    def height(epsilon: float) -> float:
        return profile._rough(epsilon) - math.log(delta)

    # Nothing happens at what one report alone has, unless that is the largest loss.
    last = profile.ceiling if math.isfinite(profile.ceiling) else 2 * alone
    guess, slope = gaussian_guess(profile.spread / profile.reports, delta)
    start, slope = rough_root(height, last, min(guess, 0.9 * alone), slope)
    start = min(start, alone)
    return min(smallest_safe(profile.delta, delta, last, start, slope, past=_PAST), alone)


class Pools(NamedTuple):
    """The probabilities of pools of cells from the lower end, the upper end, and from what all others hold.

    Each of them may be wrong by the part `wrong` of itself.
    """

    first: tuple[float, ...]
    second: tuple[float, ...]
    others: tuple[float, ...]
    wrong: float


@dataclass(frozen=True)
class ReachedByNoise:
    """The largest δ(ε) that some datasets of n reports reach, rounded down."""

    reports: int
    datasets: tuple[Pools, ...]

    def delta(self, epsilon: float) -> float:
        """Return δ(ε), rounded down."""
        return max((_reached(self.reports, pools, epsilon) for pools in self.datasets), default=0.0)

    def epsilon(self, delta: float) -> float:
        """Return ε(δ), rounded down: the lower bound of δ at the answer is at least δ."""
        wanted = max(delta, SMALLEST_DELTA)
        # ε does not fall as δ falls, though the search for a tiny δ may end earlier.
        best = self.epsilon(_TINY) if wanted < _TINY else 0.0
        for pools in sorted(self.datasets, key=lambda each: -_guess(self.reports, each, wanted)[0]):
            if best == 0 or _reached(self.reports, pools, best * (1 + 1e-3)) > wanted:
                best = max(best, _searched_below(self.reports, pools, wanted))
        return best


def _gains(pools: Pools, epsilon: float) -> tuple[Array, Array]:
    """Return E[W; pool] of each pool, and its error."""
    exp_eps = math.exp(epsilon)
    first = np.array(pools.first)
    second = np.array(pools.second)
    error = pools.wrong + slack(8) * (1 + epsilon)
    return first - exp_eps * second, (first + exp_eps * second) * error


def _summand(pools: Pools, epsilon: float) -> tuple[Array, Array]:
    """Return W·e^−ε, ascending, and its probabilities, smaller than the exact ones by all errors."""
    gains, errors = _gains(pools, epsilon)
    masses = np.array(pools.others)
    with np.errstate(over="ignore"):
        values = (gains - errors) / masses * math.exp(-epsilon)
    values = np.clip(values - slack(16) * np.abs(values), -_LARGEST_VALUE, _LARGEST_VALUE)
    order = np.argsort(values)
    values = values[order]
    masses = masses[order]
    # All but the least value get less than they have, and the least one gets the rest: that lowers W.
    masses = masses * (1 - 2 * pools.wrong)
    others = float(masses[1:].sum()) * (1 + slack(256))
    masses[0] = max(1 - others, 0.0)
    return values, masses


@lru_cache(maxsize=1024)
def _pieces(reports: int, pools: Pools, epsilon: float) -> tuple[tuple[Piece, ...], float]:
    """Return how to sum W, and roughly log δ(ε)."""
    values, masses = _summand(pools, epsilon)
    if values[-1] <= 0:
        return (), -math.inf
    pieces = split(values, masses, reports, _LOWER_PRECISION)
    return pieces, rough_log_sum(pieces) + epsilon - math.log(reports)


@lru_cache(maxsize=256)
def _guess(reports: int, pools: Pools, delta: float) -> tuple[float, float]:
    """Return roughly the ε at which δ(ε) = delta, and d log δ/dε there."""
    gains, _ = _gains(pools, 0.0)
    if reports <= 2 or float(np.maximum(gains, 0.0).sum()) <= delta:
        return 0.0, -1.0
    ratios = (one / two for one, two in zip(pools.first, pools.second, strict=True))
    largest = math.log(max(ratios))
    ceiling = min(largest, _LARGEST_EPSILON)
    values, masses = _summand(pools, 0.0)
    square = float((masses * np.clip(values, -1.0, 1.0) ** 2).sum())
    start, slope = gaussian_guess(math.sqrt(square / reports), delta)

    def height(epsilon: float) -> float:
        return _pieces(reports, pools, epsilon)[1] - math.log(delta)

    return rough_root(height, ceiling, min(start, 0.5 * ceiling), slope)


def _searched_below(reports: int, pools: Pools, delta: float) -> float:
    """Return ε(δ) of one dataset, rounded down."""
    if reports <= 2:
        return bisect_safe(
            lambda epsilon: _reached(reports, pools, epsilon) >= delta,
            unsafe=_LARGEST_EPSILON,
            good=0.0,
            relative=_CLOSE,
        )
    point, slope = _guess(reports, pools, delta)
    best = 0.0
    worst = math.inf
    for tries in range(_TRIES):
        reached = _reached(reports, pools, point)
        if reached >= delta:
            best = max(best, point)
        else:
            worst = min(worst, point)
        if worst - best <= _CLOSE * best:
            break
        move = -math.log(max(reached, 1e-320) / delta) / slope
        point += move - 0.3 * _CLOSE * point
        if not best < point < worst or (tries > _TRIES // 3 and worst < math.inf):
            point = 0.5 * (best + worst) if worst < math.inf else 1.01 * best + 1e-9
    return best


@lru_cache(maxsize=256)
def _reached(reports: int, pools: Pools, epsilon: float) -> float:
    """Return what the dataset has as δ(ε) at least."""
    if epsilon > _LARGEST_EPSILON:
        return 0.0
    gains, errors = _gains(pools, epsilon)
    masses = np.array(pools.others)
    least = _unhidden(reports, masses, gains - errors)
    if reports == 2:  # E[(W₁ + W₂)₊]/2, outcome by outcome
        table = np.multiply.outer(gains - errors, masses * (1 - pools.wrong))
        less = np.multiply.outer(gains - errors, masses * (1 + pools.wrong))
        sums = np.where(table > 0, table, less)
        both = float(np.maximum(sums + sums.T, 0.0).sum())
        least = max(least, 0.5 * both * (1 - 1e-12))
    elif reports > 2:
        pieces, _ = _pieces(reports, pools, epsilon)
        total = lower_sum(*_summand(pools, epsilon), reports, pieces)
        least = max(least, total * math.exp(epsilon) / reports * (1 - slack(16)))
    return least if least > SMALLEST_DELTA else 0.0


def _unhidden(reports: int, masses: Array, gains: Array) -> float:
    """Return the larger of E[S; no W is negative]/n and E[S; exactly one W is positive]/n."""
    more = 1 + slack(len(gains) + 64)
    alone = float(np.maximum(gains, 0.0).sum()) * (1 - slack(len(gains) + 8))
    above = float(masses[gains > 0].sum()) * more
    below = float(masses[gains <= 0].sum()) * more
    less = float(np.maximum(-gains, 0.0).sum()) * more
    others = reports - 1
    none = alone * max(0.0, 1 - others * below)
    one = alone * (1 - reports * above) - others * above * less
    return max(0.0, none, one) * (1 - slack(64))
