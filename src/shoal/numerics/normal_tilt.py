"""The sum of n copies of W for normal noise, roughly: its saddle on the real axis, and what single large W add."""

import math
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from shoal.numerics.normal_rays import LARGEST, NormalRays, normal_rays, rule
from shoal.rounding import slack

__all__ = ["Effort", "NormalTilt"]

_SCANNED, _AGAIN = 56, 20
"""At how many x a saddle is looked for, first and then closer."""
_SUNK, _DEEPEST = 75.0, 500.0
"""Where Φ is below exp(−75), the path need not stay on the real axis."""
_NEARLY = 1 - 1e-9
_NEWTON = 10

Array = NDArray[np.float64]


class Effort(NamedTuple):
    """What is done for the bounds.

    Attributes
    ----------
    share : float
        Of the saddle: where the path turns.
    nodes, along : int
        Of a panel of s, which is even, and of one of t.
    left_out : float
        Which part of δ a panel may have that is charged, or that lies beyond the last one.
    upright : bool
        Whether the path goes straight up to infinity where that seems to add nothing.
    """

    share: float
    nodes: int
    along: int
    left_out: float
    upright: bool = False


_EFFORTS = (
    Effort(1.0, 8, 8, 1e-7, upright=True),
    Effort(0.6, 12, 12, 1e-10),
    Effort(1.0, 12, 12, 1e-11),
    Effort(0.4, 14, 14, 1e-11),
)
_FEW, _MUCH = 100, 3.0
"""With fewer reports and more noise than this, the last effort is the best one to begin with."""


class NormalTilt(NamedTuple):
    """The sum of n copies of W at one ε.

    Attributes
    ----------
    rays : NormalRays
        Of one report.
    reports : int
        n.
    start, gain : float
        W = start + gain·(t − 1) on one half, start − (t − 1) on the other.
    """

    rays: NormalRays
    reports: int
    start: float
    gain: float

    @classmethod
    def of(cls, deviation: float, reports: int, epsilon: float, *, side: int = 0) -> Self:
        """Return the sum for normal noise of this deviation: at ε, not above it (side −1), or not below it (side 1)."""
        if epsilon < 0.5:
            start = math.expm1(-epsilon) * (1 + side * slack(8))
            return cls(normal_rays(deviation), reports, start, 1 + start)
        gain = math.exp(-epsilon) * (1 - side * slack(8) * (1 + epsilon))
        return cls(normal_rays(deviation), reports, gain - 1, gain)

    @property
    def missing(self) -> float:
        """Log Φ(∞), that no report is on the blanket."""
        return self.reports * math.log(math.erf(self.rays.half / math.sqrt(2)))

    @property
    def efforts(self) -> tuple[Effort, ...]:
        """What to try, the most promising first."""
        return _EFFORTS[::-1] if self.reports < _FEW and self.rays.deviation > _MUCH else _EFFORTS

    def roughly(self) -> float:
        """Return roughly log δ."""
        saddle, _, expected = self._saddle()
        points = saddle * np.exp(-np.arange(_AGAIN))
        sizes = self._jumps(points) + self._rough(points)[0]
        jumps = float(sizes[np.isfinite(sizes)].max(initial=-math.inf)) - 4
        return float(np.logaddexp(expected, jumps)) - math.log(math.pi * self.reports * self.gain)

    def _rough(self, points: Array) -> tuple[Array, Array]:
        """Return roughly log Φ(x) without what lies beyond the outer saddle, and the log of Φ(x) − Φ(∞)."""
        real, rays = self.rays.real, self.rays
        nodes, weights, _ = rule(3)
        width = real.edges[1]
        logs = (real.edges[:-1, None] + width / 2 * (1 + nodes)).ravel()
        masses = rays.heights(logs) * np.tile(weights * width / 2, len(real.edges) - 1)
        ups = self._outer(points)
        far = np.expm1(logs)
        inner = np.arange(len(logs)) // len(nodes) < ups[:, None]
        upper = np.multiply.outer(points, self.start + self.gain * far)
        lower = np.multiply.outer(points, self.start - far)
        upper_powers = np.where(inner, np.expm1(np.minimum(upper, 300.0)), -1.0)
        lower_powers = np.expm1(lower)
        beyond = real.beyond[-1] * (2 + 2 * points * self.start)
        beyond = beyond + points * (self.gain - 1) * (real.excess[-1] - real.beyond[-1])
        excess = points * self.start + (upper_powers + lower_powers - upper - lower) @ masses - beyond
        # What lies beyond counts with its size, so that the saddle does not lie where it is most of all.
        outer = points * (self.start + self.gain * real.reach[ups])
        excess = excess + rays.heights(real.edges[ups]) * np.exp(np.minimum(outer, 300.0))
        shares = (np.where(inner, np.exp(np.minimum(upper, 300.0)), 0.0) + np.exp(lower)) @ masses
        powers = self.reports * np.log1p(np.maximum(excess, -_NEARLY))
        aways = np.minimum(self.reports * np.log1p(shares / math.erf(rays.half / math.sqrt(2))), 600.0)
        small = self.missing + np.log(np.expm1(np.maximum(aways, 1e-300)))
        return powers, np.where(aways < 0.1, small, powers + np.log(-np.expm1(-np.maximum(aways, 0.1))))

    def _outer(self, points: Array) -> NDArray[np.int64]:
        """Return the edge next to the saddle of e^{xW} times the density: where x·gain·t = σz, and z is large."""
        real, rays = self.rays.real, self.rays
        places = rays.half + rays.deviation * real.edges
        levels = np.log(rays.deviation * places) - real.edges - math.log(self.gain)
        first = self._innermost
        return first + np.asarray(np.searchsorted(-levels[first:], -np.log(points), side="right") - 1).clip(0)

    @property
    def _innermost(self) -> int:
        """The first edge with z ≥ 1.6σ, beyond which the outer saddle is one."""
        places = self.rays.half + self.rays.deviation * self.rays.real.edges
        return min(int(np.searchsorted(places, 1.6 * self.rays.deviation)), len(places) - 1)

    def _saddle(self) -> tuple[float, float, float]:
        """Return about the x at which Φ(x)/x² is least, its width, and the log of both together."""
        real, rays = self.rays.real, self.rays
        first = self._innermost
        top = rays.deviation * (rays.half + rays.deviation * real.edges[first]) * math.exp(-real.edges[first])
        top = min(top / self.gain, 0.9 * LARGEST / self.gain / max(real.reach[first], 1e-300))
        inner = min(len(real.edges) - 1, first + 4)
        square = 2 * (self.start**2 * real.scaled[inner, 0] + real.scaled[inner, 2] * real.reach[inner] ** 2)
        low = min(1e-3 / math.sqrt(self.reports * square), 1e-3 * top)
        last = real.edges[-1]
        low = min(low, math.exp(-last) * 0.1 / self.gain) if self.reports > 1e3 else min(low, math.exp(-last))
        points = np.geomspace(max(low, 1e-280), top, _SCANNED)
        for _ in range(2):
            whole, powers = self._rough(points)
            sunk = np.flatnonzero(powers < -_SUNK)
            count = max(int(sunk[0]), 2) if len(sunk) else len(points)
            # Unless large W add nothing to what is there.
            jumps = (self._jumps(points) + whole)[:count]
            if not (jumps[np.isfinite(jumps)] > -2 * _SUNK).any() and np.isfinite(jumps).all():
                sunk = np.flatnonzero(powers < -_DEEPEST)
                count = max(int(sunk[0]), 2) if len(sunk) else len(points)
            logs = powers[:count] - 2 * np.log(points[:count])
            rising = np.flatnonzero(np.diff(logs) > 0)
            best = int(rising[0]) if len(rising) else len(logs) - 1
            found = float(points[best])
            points = np.geomspace(points[max(best - 1, 0)], points[min(best + 1, len(points) - 1)], _AGAIN)
        near = np.array([0.98, 1.0, 1.02]) * found
        logs, powers = self._rough(near)
        second = max((logs[0] - 2 * logs[1] + logs[2]) / (0.02 * found) ** 2, 1e-300)
        narrow = min(1 / math.sqrt(second), 1e3 * found)
        return found, narrow, float(powers[1]) - 2 * math.log(found) + math.log(min(narrow, found))

    def _places(self, points: Array) -> Array:
        """Return z ≥ 1.6σ at which x·gain·t = σz, or a little less; or else nothing."""
        deviation, half = self.rays.deviation, self.rays.half
        least = max(half, 1.6 * deviation)
        targets = np.log(points) + math.log(self.gain) - half / deviation
        places = np.full(len(points), 2 * least + 1.0)
        for _ in range(_NEWTON):  # concave, and falling from z = σ on
            heights = np.log(deviation * places) - places / deviation - targets
            places = np.maximum(places + heights / (1 / deviation - 1 / places), least)
        places = places * (1 - 1e-6)
        reached = np.log(deviation * places) - places / deviation >= targets
        return np.where(reached & (places >= least * (1 - 1e-5)), places, math.nan)

    def _jumps(self, points: Array, places: Array | None = None) -> Array:
        """Return the log of a bound of ∫ n·|Im E[e^{xW}]|/x² dx from zero to each point; or infinity."""
        deviation, half = self.rays.deviation, self.rays.half
        places = self._places(points) if places is None else places
        gaps = places - deviation - 1 / deviation
        with np.errstate(invalid="ignore", divide="ignore"):
            logs = -0.5 * places**2 + deviation * places + (places - half) / deviation + math.log(self.gain)
            logs = logs + np.log((6 + 2 / (deviation * places)) / (deviation * places * gaps))
        logs = logs + math.log(self.reports / math.sqrt(2 * math.pi)) + 1e-9
        return np.where(gaps > 0, logs, math.inf)
