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

from shoal.losses.lattice_sum import LatticeSum
from shoal.losses.noise_ratio import Cells, NoiseRatio
from shoal.rounding import slack

__all__ = ["NoiseFrame", "Saddle"]

_TILTS = 80
_COARSEST = 8.0
_DEEP = 60.0
"""Values below −60/θ are one value: they count for less than exp(−60)."""
_DIGITS = 50
"""Of a step and a position together: so few that their product is a double, and the middle of two such."""
_LEVELS = 80
_CLEAR = 14.0
"""Aliases are to be below exp(−14) of δ."""
_LARGEST = 600.0
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
    """

    log_delta: float
    slope: float
    tilt: float
    often: float
    spread: float
    cap: float
    scale: float

    @classmethod
    def of(cls, ratio: NoiseRatio, reports: int, epsilon: float, *, spare: float, start: float = 0.0) -> "Saddle":
        """Look for the saddle at ε, from a tilt; capping W may add roughly `spare` to δ."""
        growth, less = math.exp(epsilon), math.expm1(epsilon)
        scale = 2.0 ** math.floor(math.log2(min(growth, ratio.top)))
        spots, masses = ratio.spots()
        values = np.concatenate((spots - less, -less - growth * spots)) / scale
        losses = np.concatenate((np.ones(len(spots)), 1 + spots)) * (growth / scale)
        masses = np.concatenate((masses, masses))
        cap = (ratio.top - less) / scale
        if math.isinf(cap):
            cap = _cap(ratio, reports, epsilon, (values, masses, scale), spare)
            values = np.minimum(values, cap)
        tilt = start or 1 / math.sqrt(reports * float((masses * values**2).sum()))
        steepest = _LARGEST / max(cap, 1e-300)
        tilt = min(tilt, steepest)
        for _ in range(_TILTS):
            powers = masses * np.exp(tilt * values)
            moment = 1 + float(powers.sum()) - float(masses.sum())
            mean = float((powers * values).sum()) / moment
            square = float((powers * values**2).sum()) / moment
            curve = reports * (square - mean**2) + 2 / tilt**2
            following = tilt - (reports * mean - 2 / tilt) / curve
            following = min(max(following, tilt / 4), 4 * tilt, steepest)
            if abs(following - tilt) <= 1e-3 * tilt:
                break
            tilt = following
        log_moment = reports * math.log1p(float((masses * np.expm1(tilt * values)).sum()))
        log_delta = log_moment - 2 * math.log(tilt) - 0.5 * math.log(2 * math.pi * curve) + math.log(scale / reports)
        slope = -tilt * reports * float((powers * losses).sum()) / moment
        spread = math.sqrt(reports * square)
        return cls(log_delta, slope, tilt, float(powers.sum()) / moment, spread, cap, scale)


def _cap(ratio: NoiseRatio, reports: int, epsilon: float, spots: tuple[Array, Array, float], spare: float) -> float:
    """Return a W that, if all others are what they are like, makes the sum positive; or beyond which hardly any is."""
    growth, less = math.exp(epsilon), math.expm1(epsilon)
    values, masses, scale = spots
    order = np.argsort(np.abs(values))
    sizes = np.abs(values)[order]
    means = -reports * np.cumsum((masses * values)[order])
    spreads = np.sqrt(reports * np.cumsum((masses * values**2)[order]))
    least, most = max(float(sizes[0]), 1e-12), float(sizes[-1])
    best = most
    for level in np.exp(np.linspace(math.log(least), math.log(most), _LEVELS)).tolist():
        index = int(np.searchsorted(sizes, level, side="right")) - 1
        missed = ratio.beyond(max(level * scale + less, 0.0))[1]
        far = 0.5 * math.erfc((level - means[index]) / max(spreads[index], 1e-300) / math.sqrt(2))
        jump = reports * ratio.beyond(max((level * scale - less) / growth, 0.0))[0]
        if missed * min(1.0, far + jump) <= spare:
            best = level
            break
    return best


class NoiseFrame:
    """Positions, a tilt and nodes for δ(ε) near one ε.

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
    """

    def __init__(self, ratio: NoiseRatio, reports: int, epsilon: float, saddle: Saddle, precision: float) -> None:
        self.ratio, self.reports, self.epsilon, self.scale = ratio, reports, epsilon, saddle.scale
        self.slope = saddle.slope
        depth = math.log1p(math.exp(epsilon)) - saddle.log_delta + _CLEAR
        period = max(depth / saddle.tilt, 7.5 * saddle.spread)
        if math.isinf(ratio.top):
            period = max(period, 1.2 * saddle.cap)
        lowest = -min(_DEEP / saddle.tilt, (math.exp(epsilon) * ratio.top + math.expm1(epsilon)) / self.scale)
        step = math.sqrt(12 * precision / (reports * saddle.often)) / saddle.tilt
        while True:
            if math.isfinite(ratio.top):  # the largest value, which has a mass of its own, is a position
                step = saddle.cap / math.ceil(saddle.cap / step)
            step = _short(step, max(saddle.cap, -lowest) / step)
            sparse = max(_COARSEST, saddle.tilt * saddle.spread / math.sqrt(12 * precision))
            positions = _ladder(step, sparse, lowest, saddle.cap)
            masses = self._split(epsilon, np.asarray(step * positions, dtype=np.float64))[0]
            self.sum = LatticeSum(step, positions, tilt=saddle.tilt, copies=reports, period=period, masses=masses)
            if self.sum.usable or step * saddle.tilt > 0.2:
                break
            step, precision = 2 * step, 4 * precision

    def serves(self, epsilon: float) -> bool:
        """Tell whether bounds at a larger ε are about as good as at the ε that the frame is for."""
        return 0 <= (self.epsilon - epsilon) * self.slope <= _AROUND

    def upper(self, epsilon: float) -> float:
        """Return an upper bound of δ(ε)."""
        if not self.sum.usable:
            return math.inf
        masses, errors, cost = self._split(epsilon, self.sum.values)
        return self.sum.upper(masses, errors) * (self.scale / self.reports) * (1 + slack(8)) + cost

    def lower(self, epsilon: float) -> float:
        """Return a lower bound of δ(ε)."""
        if not self.sum.usable:
            return 0.0
        masses, gains, errors = self._rounded(epsilon, self.sum.values)
        return self.sum.lower(masses, gains, errors) * self.scale * (1 - slack(8))

    def _halves(self, less: float, edges: Array) -> tuple[Cells, Cells, Array, Array, Array, Array]:
        """Return the cells of both halves between neighbouring edges, and where these begin or end within them."""
        scale, growth = self.scale, 1 + less
        meet = -less / scale  # W where the halves meet
        starts, ends = np.maximum(edges[:-1], meet), np.maximum(edges[1:], meet)
        over = np.maximum(edges * scale + less, 0.0)
        left = self.ratio.cells(over[:-1], over[1:], (ends - starts) * scale)
        highs, lows = np.minimum(edges[1:], meet), np.minimum(edges[:-1], meet)
        under = np.maximum((-less - edges * scale) / growth, 0.0)
        right = self.ratio.cells(under[1:], under[:-1], (highs - lows) * (scale / growth))
        return left, right, starts, ends, lows, highs

    def _split(self, epsilon: float, edges: Array) -> tuple[Array, Array, float]:
        """Return W moved to the two nearest edges with its mean kept: masses, errors, and what the cap costs."""
        less = math.expm1(epsilon) * (1 - slack(8))  # δ at an ε that is no larger
        scale, growth = self.scale, 1 + less
        left, right, starts, _, _, highs = self._halves(less, edges)
        gaps = np.diff(edges)
        rises = left.rises / scale + left.masses * np.where(left.masses > 0, starts - edges[:-1], 0.0)
        falls = left.falls / scale
        downs = right.falls * (growth / scale)
        drops = right.rises * (growth / scale) + right.masses * np.where(right.masses > 0, edges[1:] - highs, 0.0)
        masses, errors = np.zeros(len(edges)), np.zeros(len(edges))
        masses[1:] += (rises + downs) / gaps
        masses[:-1] += (falls + drops) / gaps
        errors[1:] += (rises * left.wrong + downs * right.wrong) / gaps
        errors[:-1] += (falls * left.wrong + drops * right.wrong) / gaps
        top, cost = self.ratio.beyond(max(float(edges[-1]) * scale + less, 0.0))
        bottom, _ = self.ratio.beyond(max((-less - float(edges[0]) * scale) / growth, 0.0))
        masses[-1] += top
        masses[0] += bottom
        errors[-1] += top * float(left.wrong[-1])
        errors[0] += bottom * float(right.wrong[0])
        return masses, errors + slack(32) * masses, cost

    def _rounded(self, epsilon: float, positions: Array) -> tuple[Array, Array, tuple[Array, Array]]:
        """Return W rounded to the nearest position: masses, E[W; position], and the errors of both."""
        less = math.expm1(epsilon) * (1 + slack(8))
        scale, growth = self.scale, 1 + less
        edges = 0.5 * (positions[1:] + positions[:-1])
        left, right, starts, _, _, highs = self._halves(less, edges)
        first, last = float(edges[0]), float(edges[-1])
        top, excess = self.ratio.beyond(max(last * scale + less, 0.0))
        bottom, deficit = self.ratio.beyond(max((-less - first * scale) / growth, 0.0))
        masses = np.concatenate(([bottom], left.masses + right.masses, [top]))
        losses = np.concatenate(([left.wrong[0]], np.maximum(left.wrong, right.wrong), [right.wrong[-1]]))
        raised, lowered = left.rises / scale, right.rises * (growth / scale)
        inside = left.masses * starts + raised + right.masses * highs - lowered
        sizes = left.masses * np.abs(starts) + raised + right.masses * np.abs(highs) + lowered
        # The integrals beyond the ends are rounded up: their own size is what they may be wrong by, and more.
        gains = np.concatenate(([first * bottom - deficit * growth / scale], inside, [last * top + excess / scale]))
        sizes = np.concatenate(
            ([abs(first) * bottom + deficit * growth / scale], sizes, [abs(last) * top + excess / scale])
        )
        return masses, gains, (masses * (losses + slack(16)), sizes * (losses + slack(32)))


def _short(step: float, most: float) -> float:
    """Return the step rounded to so few digits that its multiples up to `most` of them, and a few more, are doubles."""
    digits, exponent = math.frexp(step)
    kept = _DIGITS - math.ceil(math.log2(most + 4))
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
