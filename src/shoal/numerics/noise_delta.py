"""δ(ε) of n shuffled reports with noise on [0, 1], from both sides: the blanket's W on a lattice, as fine as is needed.

With t the likelihood ratio of one report (`noise_ratio`), W is t − e^ε on one half of the blanket and 1 − e^ε·t on the
other, and δ(ε) = E[(W₁ + … + Wₙ)₊]/n. From above, each W is moved to the two nearest positions of a lattice with its
mean kept, values beyond the last position are moved to it, and what they lose is charged. From below, a test that adds
up W rounded to the lattice is evaluated as it is (docs/theory/blanket.md, section 6). Both differ from the truth by
about n·θ²a²/12 of it, at the tilt θ and with steps of a: so a follows from what is asked for.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.numerics.lattice_sum import LatticeSum
from shoal.numerics.noise_ratio import Cells, NoiseRatio
from shoal.rounding import slack

__all__ = ["NoiseFrame", "Saddle", "cap_of"]

_TILTS = 80
_COARSEST, _SPARSEST = 8.0, 2000.0
_COARSER = 8
"""How often the step is doubled if the sum has too many nodes."""
_DEEP = 60.0
"""Values below −60/θ are one value: they count for less than exp(−60)."""
_DIGITS = 50
"""Of a step and a position together: so few that their product is a double, and the middle of two such."""
_LEVELS = 80
_CLEAR = 14.0
"""Aliases are to be below exp(−14) of δ."""
_LARGEST = 300.0
_LEAPS = (1.1, 1.3, 1.6, 2.0, 3.0)
"""Of the tilt: others, at which Chernoff's bound says how far the sum reaches."""
_WRONG = 2.0**-40
"""By which part of itself the probability of a jump may be wrong."""
_AROUND = 1.0
"""A frame serves until log δ has fallen by about 1."""

Array = NDArray[np.float64]


class Saddle(NamedTuple):
    """What the sum of n copies of W is like, roughly: where it is tilted to, and what δ is about.

    Attributes
    ----------
    log_delta, slope : float
        Roughly log δ(ε), and its derivative in ε.
    tilt : float
        θ, near the minimum of M(θ)ⁿ/θ², for W in units of `scale`.
    often, spread : float
        The tilted probability that W is not zero, and the root of n·E[W²].
    cap : float
        The largest W that is told from larger ones, in units of `scale`.
    scale : float
        A power of two near e^ε, or near the largest W if that is less.
    grain : float
        Over what distances E[(S − x)₊] changes, 1/θ.
    period : float
        How far apart aliases are to be, so that sums that large do not count by Chernoff's bound.
    """

    log_delta: float
    slope: float
    tilt: float
    often: float
    spread: float
    cap: float
    scale: float
    grain: float
    period: float

    @classmethod
    def of(cls, ratio: NoiseRatio, reports: int, epsilon: float, *, spare: float) -> "Saddle":
        """Look for the saddle of noise at ε; capping W may add roughly `spare` to δ."""
        growth, less = math.exp(epsilon), math.expm1(epsilon)
        scale = 2.0 ** math.floor(math.log2(min(growth, ratio.top)))
        spots, masses = ratio.spots()
        values = np.concatenate((spots - less, -less - growth * spots)) / scale
        losses = np.concatenate((np.ones(len(spots)), 1 + spots)) * (growth / scale)
        masses = np.concatenate((masses, masses))
        cap = (ratio.top - less) / scale
        return cls.at(reports, values, masses, losses, cap=cap, scale=scale, spare=spare)

    @classmethod
    def at(
        cls, reports: int, values: Array, masses: Array, losses: Array, *, cap: float, scale: float, spare: float
    ) -> "Saddle":
        """Look for the saddle, given W, its masses, and −dW/dε; a cap that is infinite is chosen."""
        if math.isinf(cap):
            cap = cap_of(reports, values, masses, spare / scale)
            values = np.minimum(values, cap)
        steepest = _LARGEST / max(cap, 1e-300)
        tilt = min(1 / math.sqrt(reports * float((masses * values**2).sum())), steepest)
        for _ in range(_TILTS):
            powers = masses * np.exp(tilt * values)
            moment = max(1 + float((masses * np.expm1(tilt * values)).sum()), float(powers.sum()), 1e-300)
            mean = float((powers * values).sum()) / moment
            square = float((powers * values**2).sum()) / moment
            curve = reports * max(square - mean**2, 0.0) + 2 / tilt**2
            following = tilt - (reports * mean - 2 / tilt) / curve
            following = min(max(following, tilt / 4), 4 * tilt, steepest)
            if abs(following - tilt) <= 1e-3 * tilt:
                break
            tilt = following
        log_moment = reports * (math.log1p(moment - 1) if moment > 0.5 else math.log(moment))
        log_delta = log_moment - 2 * math.log(tilt) - 0.5 * math.log(2 * math.pi * curve) + math.log(scale / reports)
        slope = -tilt * reports * float((powers * losses).sum()) / moment
        own = float((masses * np.maximum(values, 0.0)).sum()) * scale
        log_delta = min(log_delta, math.log(max(own, 1e-300)))  # a saddle says too much where one W decides
        far = math.log(scale) - log_delta + _CLEAR
        tilts = tilt * np.array(_LEAPS)
        tilts = tilts[tilts * cap < 2 * _LARGEST]
        excesses = np.expm1(np.multiply.outer(tilts, values)) @ masses
        highest = reports * np.log1p(np.maximum(excesses, -0.999)) + far + math.log(cap)
        period = float((highest / (tilts - tilt)).min(initial=math.inf)) if len(tilts) else 0.0
        spread = math.sqrt(reports * square)
        return cls(log_delta, slope, tilt, float(powers.sum()) / moment, spread, cap, scale, 1 / tilt, period)


def cap_of(reports: int, values: Array, masses: Array, spare: float) -> float:
    """Return a W that, if all others are what they are like, makes the sum positive; or beyond which hardly any is."""
    order = np.argsort(np.abs(values))
    sizes, values, masses = np.abs(values)[order], values[order], masses[order]
    means = -reports * np.cumsum(masses * values)
    spreads = np.sqrt(reports * np.cumsum(masses * values**2))
    levels = np.geomspace(max(float(sizes[0]), 1e-12 * float(sizes[-1])), float(sizes[-1]), _LEVELS)
    missed = np.maximum(np.subtract.outer(-levels, -values), 0.0) @ masses
    jumps = reports * ((values < -levels[:, None]) @ masses)
    indices = np.searchsorted(sizes, levels, side="right") - 1
    distances = (levels - means[indices]) / np.maximum(spreads[indices], 1e-300)
    far = np.array([0.5 * math.erfc(distance / math.sqrt(2)) for distance in distances.tolist()])
    enough = missed * np.minimum(1.0, far + jumps) <= spare
    return float(levels[np.argmax(enough)]) if enough.any() else float(levels[-1])


class _Part(NamedTuple):
    """One part of the distribution of W on positions: masses, E[W; position] or nothing, the errors of both, a cost."""

    masses: Array
    gains: Array
    errors: Array
    doubts: Array
    cost: float


class NoiseFrame:
    """Positions, a tilt and nodes for δ(ε) near one ε, or for the part of it without jumps, or for the part with some.

    Parameters
    ----------
    ratio : NoiseRatio
        Of one report.
    reports : int
        n.
    saddle : Saddle
        At an ε nearby.
    precision : float
        What discretising may change of δ, relatively: about so much on either side.
    level : float
        A larger W is a jump, in units of the saddle's scale.
    until : float, optional
        With it, the part is meant in which some W is a jump, and none is larger than this.
    """

    def __init__(
        self,
        ratio: NoiseRatio,
        reports: int,
        epsilon: float,
        saddle: Saddle,
        precision: float,
        *,
        level: float = math.inf,
        until: float | None = None,
    ) -> None:
        self.ratio, self.reports, self.epsilon, self.scale = ratio, reports, epsilon, saddle.scale
        self.slope, self.level, self.until = saddle.slope, level, until
        depth = math.log1p(math.exp(epsilon)) - saddle.log_delta + _CLEAR
        period = max(depth / saddle.tilt, 7.5 * saddle.spread, saddle.period)
        if math.isinf(ratio.top):
            period = max(period, (1.2 if until is None else 4) * saddle.cap + 8 * saddle.spread)
        lowest = -_DEEP / saddle.tilt
        if math.isinf(ratio.top):  # nothing is told from what outweighs several caps
            lowest = max(lowest, -4 * (saddle.cap + 8 * saddle.spread))
        else:
            later = min(epsilon - _AROUND / saddle.slope, ratio.reach)
            lowest = max(lowest, -(math.exp(later) * ratio.top + math.expm1(later)) / self.scale)
        step = math.sqrt(12 * precision / max(1.0, reports * saddle.often)) * saddle.grain
        for _ in range(_COARSER):
            if math.isfinite(ratio.top):  # the largest value, which has a mass of its own, is a position
                step = saddle.cap / math.ceil(saddle.cap / step)
            step = _short(step, max(saddle.cap, -lowest) / step)
            sparse = min(max(_COARSEST, saddle.spread / saddle.grain / math.sqrt(12 * precision)), _SPARSEST)
            positions = _ladder(step, sparse, lowest, saddle.cap)
            masses = self._split(epsilon, np.asarray(step * positions, dtype=np.float64), high=level).masses
            self.sum = LatticeSum(step, positions, tilt=saddle.tilt, copies=reports, period=period, masses=masses)
            if self.sum.usable:
                break
            step, precision = 2 * step, 4 * precision

    def serves(self, epsilon: float) -> bool:
        """Tell whether bounds at a larger ε are about as good as at the ε that the frame is for."""
        return 0 <= (self.epsilon - epsilon) * self.slope <= _AROUND

    def upper(self, epsilon: float) -> float:
        """Return an upper bound of δ(ε)."""
        if not self.sum.usable:
            return math.inf
        part = self._split(epsilon, self.sum.values, high=self.level)
        missing = self._beyond(math.expm1(epsilon) * (1 + slack(16))) * (1 - _WRONG)
        if self.until is None:
            value = self.sum.upper(part.masses, part.errors, missing=missing)
            return value * (self.scale / self.reports) * (1 + slack(8)) + part.cost
        leap = self._split(epsilon, self.sum.values, low=self.level, high=self.until)
        value = self.sum.upper(part.masses, part.errors, missing=missing, jumps=(leap.masses, leap.errors))
        return value * (self.scale / self.reports) * (1 + slack(8)) + leap.cost

    def lower(self, epsilon: float) -> float:
        """Return a lower bound of δ(ε)."""
        if not self.sum.usable:
            return 0.0
        part = self._rounded(epsilon, self.sum.values, high=self.level)
        missing = self._beyond(math.expm1(epsilon) * (1 - slack(16))) * (1 + _WRONG)
        jumps = None
        if self.until is not None:
            leap = self._rounded(epsilon, self.sum.values, low=self.level, high=self.until)
            jumps = ((leap.masses, leap.gains), (leap.errors, leap.doubts))
        errors = (part.errors, part.doubts)
        value = self.sum.lower(part.masses, part.gains, errors, missing=missing, jumps=jumps)
        return value * self.scale * (1 - slack(8))

    def _beyond(self, less: float) -> float:
        """Return the probability of a jump."""
        return self.ratio.beyond(self.level * self.scale + less)[0] if math.isfinite(self.level) else 0.0

    def _halves(self, less: float, edges: Array, low: float, high: float) -> tuple[Cells, Cells, Array, Array, Array]:
        """Return the cells of both halves between neighbouring edges, and where these begin or end within them."""
        scale, growth = self.scale, 1 + less
        meet = -less / scale  # W where the halves meet
        starts = np.clip(np.maximum(edges[:-1], meet), low, high)
        ends = np.clip(np.maximum(edges[1:], meet), low, high)
        over, above = np.maximum(starts * scale + less, 0.0), np.maximum(ends * scale + less, 0.0)
        left = self.ratio.cells(over, above, (ends - starts) * scale)
        highs, lows = np.minimum(edges[1:], meet), np.minimum(edges[:-1], meet)
        under = np.maximum((-less - edges * scale) / growth, 0.0)
        right = self.ratio.cells(under[1:], under[:-1], (highs - lows) * (scale / growth))
        if low > -math.inf:
            nothing = np.zeros(len(starts))
            right = Cells(nothing, nothing, nothing, right.wrong)
        return left, right, starts, ends, highs

    def _under(self, high: float) -> Cells:
        """Return the part of the half with W = t − e^ε in which t − 1 is at most this."""
        ends = np.array([max(min(high, self.ratio.top), 0.0)])
        return self.ratio.cells(np.zeros(1), ends, ends)

    def _split(self, epsilon: float, edges: Array, *, low: float = -math.inf, high: float = math.inf) -> _Part:
        """Return W between low and high, moved to the two nearest edges with its mean kept; and what the cap costs."""
        less = math.expm1(epsilon) * (1 - slack(8))  # δ at an ε that is no larger
        scale, growth = self.scale, 1 + less
        left, right, starts, ends, highs = self._halves(less, edges, low, high)
        gaps = np.diff(edges)
        rises = left.rises / scale + left.masses * np.where(left.masses > 0, starts - edges[:-1], 0.0)
        falls = left.falls / scale + left.masses * np.where(left.masses > 0, edges[1:] - ends, 0.0)
        downs = right.falls * (growth / scale)
        drops = right.rises * (growth / scale) + right.masses * np.where(right.masses > 0, edges[1:] - highs, 0.0)
        masses, errors = np.zeros(len(edges)), np.zeros(len(edges))
        masses[1:] += (rises + downs) / gaps
        masses[:-1] += (falls + drops) / gaps
        errors[1:] += (rises * left.wrong + downs * right.wrong) / gaps
        errors[:-1] += (falls * left.wrong + drops * right.wrong) / gaps
        cost = 0.0
        if math.isinf(high):
            top, cost = self.ratio.beyond(max(float(edges[-1]) * scale + less, 0.0))
            masses[-1] += top
            errors[-1] += top * float(left.wrong[-1])
        if math.isinf(low):
            bottom, _ = self.ratio.beyond(max((-less - float(edges[0]) * scale) / growth, 0.0))
            under = self._under(float(edges[0]) * scale + less)  # the other half may begin below the first edge, too
            masses[0] += bottom + float(under.masses[0])
            errors[0] += bottom * float(right.wrong[0]) + float((under.masses * under.wrong)[0])
        return _Part(masses, masses, errors + slack(32) * masses, errors, cost)

    def _rounded(self, epsilon: float, positions: Array, *, low: float = -math.inf, high: float = math.inf) -> _Part:
        """Return W between low and high, rounded to the nearest position: masses, E[W; position], and their errors."""
        less = math.expm1(epsilon) * (1 + slack(8))
        scale, growth = self.scale, 1 + less
        edges = 0.5 * (positions[1:] + positions[:-1])
        left, right, starts, _, highs = self._halves(less, edges, low, high)
        raised, lowered = left.rises / scale, right.rises * (growth / scale)
        masses = np.pad(left.masses + right.masses, 1)
        gains = np.pad(left.masses * starts + raised + right.masses * highs - lowered, 1)
        sizes = np.pad(left.masses * np.abs(starts) + raised + right.masses * np.abs(highs) + lowered, 1)
        losses = np.pad(np.maximum(left.wrong, right.wrong), 1, mode="edge")
        # The integrals beyond the ends are rounded up by some units of E[t; beyond].
        if math.isinf(high):
            last = float(edges[-1])
            top, excess = self.ratio.beyond(max(last * scale + less, 0.0))
            masses[-1], gains[-1] = top, last * top + excess / scale
            sizes[-1] = (abs(last) + growth / scale) * top + excess / scale
            losses[-1] = 4 * float(left.wrong[-1]) + slack(256) * (4 + abs(math.log1p(max(last * scale + less, 0.0))))
        if math.isinf(low):
            first = float(edges[0])
            under = max((-less - first * scale) / growth, 0.0)
            bottom, deficit = self.ratio.beyond(under)
            masses[0], gains[0] = bottom, first * bottom - deficit * growth / scale
            sizes[0] = (abs(first) + 1 / scale) * bottom + deficit * growth / scale
            losses[0] = 4 * float(right.wrong[0]) + slack(256) * (4 + math.log1p(under))
            rest = self._under(first * scale + less)
            masses[0] += float(rest.masses[0])
            gains[0] += float(rest.rises[0] - less * rest.masses[0]) / scale
            sizes[0] += float(rest.rises[0] + less * rest.masses[0]) / scale
            losses[0] += float(rest.wrong[0])
        return _Part(masses, gains, masses * (losses + slack(16)), sizes * (losses + slack(32)), 0.0)


def _short(step: float, most: float) -> float:
    """Return the step rounded to so few digits that its multiples up to `most` of them, and a few more, are doubles."""
    digits, exponent = math.frexp(step)
    kept = max(_DIGITS - math.ceil(math.log2(most + 4)), 4)
    return math.ldexp(round(math.ldexp(digits, kept)), exponent - kept)


def _ladder(step: float, sparse: float, lowest: float, highest: float) -> NDArray[np.int64]:
    """Return whole numbers from below the lowest value to above the highest, in steps of one, then ever larger ones."""

    def side(reach: float) -> NDArray[np.int64]:
        top, even = math.ceil(reach / step * (1 + 1e-9)) + 1, math.ceil(sparse)
        if top <= even:
            return np.arange(1, top + 1, dtype=np.int64)
        count = math.ceil(math.log(top / even) * (sparse + 0.5))
        far = np.rint(even * np.exp(np.linspace(0.0, math.log(top / even), count + 1)))
        return np.unique(np.concatenate((np.arange(1, even + 1), far))).astype(np.int64)

    return np.concatenate((-side(-lowest)[::-1], [0], side(highest)))
