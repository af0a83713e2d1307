"""Paths of complex s along which δ(ε) of normal noise is integrated, and what is left out at both of their ends.

A path stays on the real axis from next to zero up to a saddle and turns upwards there (docs/theory/numerics.md,
section 2.7). It is cut into panels, each of which has a disc of s and, on either half of the blanket, a path of t.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.numerics.moment_series import USUAL
from shoal.numerics.noise_ratio import gaussian_alone
from shoal.numerics.normal_disc import Disc, Ray
from shoal.numerics.normal_rays import LARGEST, falling
from shoal.numerics.normal_tilt import Effort, NormalTilt
from shoal.rounding import slack

__all__ = ["NormalPath", "Path"]

_WIDE = 0.35
"""Radius of a disc over the distance of its middle from zero."""
_ONWARDS = (0.5 + 1j) / math.sqrt(1.25)
"""The direction of the path from a few widths of the saddle on."""
_PART = 0.15
"""Half the length of a panel on the real axis, in log x."""
_MOST_PANELS, _SOME = 400, 6
_LESS = 20.0
"""What panels on the real axis add is hardly less than the estimate times exp(−20)."""
_MUCH_LESS = 300.0
"""Where what large W add is less than the most of that times exp(−300), it is not looked at."""
_UNSURE, _HIGHEST = 8.0, 24
"""It is seldom less than times exp(−8); and at how many x a path may turn."""

Array = NDArray[np.float64]
Complex = NDArray[np.complex128]


class Path(NamedTuple):
    """A path: panels on the real axis, from the saddle towards zero; then those from the saddle upwards.

    Attributes
    ----------
    centres, steps : numpy.ndarray
        Middles of panels, and half lengths with a direction, which are real on the real axis.
    radii : numpy.ndarray
        Of the discs around the middles.
    upper, lower : numpy.ndarray
        At which edge the path of t leaves the real axis, on the half with g > 0 and on the other.
    angles : tuple of numpy.ndarray
        Into which direction, on either half.
    turn, last : float
        Where the part on the real axis ends, at the saddle and next to zero; the last two discs are these points, which
        are no panels.
    end : complex, optional
        Where the panels end. Without it, there are none off the real axis, and the path goes straight up from the turn.
    expected : float
        Roughly the logarithm of what is summed.
    """

    centres: Complex
    steps: Complex
    radii: Array
    upper: NDArray[np.int64]
    lower: NDArray[np.int64]
    angles: tuple[Array, Array]
    turn: float
    last: float
    end: complex | None
    expected: float


class NormalPath(NormalTilt):
    """The sum of n copies of W at one ε, with a path for it."""

    def path(self, effort: Effort, lowest: "NormalPath | None" = None) -> Path:
        """Return a path that turns at a part of the saddle, or before; it may serve a lower ε, too."""
        saddle, narrow, expected = self._saddle()
        lowest = lowest or self
        rays, saddle, gain, growth = self.rays, effort.share * saddle, lowest.gain, lowest.gain / self.gain
        ends, most = self._real_panels(saddle, expected, effort)
        upwards, steps, end = np.zeros(0, dtype=np.complex128), np.zeros(0, dtype=np.complex128), None
        first = lowest._upright(ends, max(expected, most - _UNSURE), effort) if effort.upright else None
        if first is not None:
            ends = ends[first:]
        else:
            # At last without a guess of what single large W add.
            least = (max(expected, most - _LESS) if effort.upright else expected) + math.log(effort.left_out)
            upwards, steps, end = self._vertical_panels(saddle, narrow, least)
        centres, lengths = 0.5 * (ends[:-1] + ends[1:]), 0.5 * (ends[:-1] - ends[1:])
        turn, last = float(ends[0]), float(ends[-1])
        outer = int(self._outer(np.array([saddle * growth]))[0])
        sizes = np.abs(upwards)
        over = rays.edge(USUAL / (upwards.imag * gain))
        over = np.minimum(np.minimum(over, rays.edge(0.5 * LARGEST / (sizes * gain))), outer)
        over = np.maximum(over, rays.far(sizes * gain))
        under = np.maximum(rays.edge(USUAL / sizes), rays.far(sizes))
        below = np.append(centres, (turn, last))
        upper = np.minimum(self._outer(below * growth), rays.edge(LARGEST / (below * gain)))
        right, left = falling(upwards)
        count = len(centres)
        return Path(
            np.concatenate((centres, upwards, [turn, last])),
            np.concatenate((lengths, steps, [0.0, 0.0])),
            np.concatenate((2 * lengths, 2 * np.abs(steps), [0.0, 0.0])),
            np.concatenate((upper[:-2], over, upper[-2:])),
            np.concatenate((rays.edge(USUAL / centres), under, rays.edge(USUAL / below[-2:]))),
            (
                np.concatenate((np.full(count, 3 * math.pi / 4), right, np.full(2, 3 * math.pi / 4))),
                np.concatenate((np.zeros(count), left, np.zeros(2))),
            ),
            turn,
            last,
            end,
            max(expected, most),
        )

    def _upright(self, ends: Array, expected: float, effort: Effort) -> int | None:
        """Return the last of these x from which straight up nothing is to be expected."""
        points, real = ends[:_HIGHEST], self.rays.real
        edges = self._outer(points)
        outer = self.rays.heights(real.edges[edges]) * np.exp(points * (self.start + self.gain * real.reach[edges]))
        # A bound along the ray is about so many times as large as what it begins with.
        sizes = self._rough(points)[0] - np.log(points) + (2 + 4 * self.rays.deviation**2) * self.reports * outer
        enough = np.flatnonzero(sizes <= expected + math.log(0.1 * effort.left_out))
        return int(enough[-1]) if len(enough) and enough[-1] < len(ends) - 1 else None

    def _real_panels(self, saddle: float, expected: float, effort: Effort) -> tuple[Array, float]:
        """Return ends of panels from the saddle towards zero, and roughly the log of what they add."""
        ends = saddle * np.exp(-2 * _PART * np.arange(_MOST_PANELS + 1))
        tails = self._jumps(ends)
        few = tails > tails[np.isfinite(tails)].max(initial=-math.inf) - _MUCH_LESS
        sizes = tails[few][::_SOME] + self._rough(ends[few][::_SOME])[0]
        # No more than one report alone has.
        alone = gaussian_alone(self.rays.deviation, -math.log(self.gain)) * self.gain * math.pi * self.reports
        most = min(float(sizes[np.isfinite(sizes)].max(initial=-math.inf)) - 2, math.log(max(alone, 1e-300)))
        most = max(most, expected)
        enough = np.flatnonzero(tails <= most + math.log(1e-2 * effort.left_out))
        last = int(enough[0]) if len(enough) else _MOST_PANELS
        return ends[: last + 1], most

    def _vertical_panels(self, saddle: float, narrow: float, least: float) -> tuple[Complex, Complex, complex]:
        """Return panels from the saddle upwards and then to the right, their half lengths, and where they end.

        What lies beyond is, roughly, at most e^least.
        """
        rays = self.rays
        height, mass = 8 * float(rays.heights(np.zeros(1))[0]), 4 * float(rays.real.beyond[0])
        rest = math.erf(rays.half / math.sqrt(2))
        turn = 8 * narrow if narrow < saddle else 1.5 * saddle
        middles: list[complex] = []
        halves: list[complex] = []
        point = complex(saddle, 0.0)
        while len(middles) < _MOST_PANELS:
            length = 0.5 * _WIDE / (1 + 0.5 * _WIDE) * abs(point)
            if point.imag < turn:
                length = min(length, 1.5 / max(-self.start, 1e-300))
                step = 1j * min(length, 0.6 * narrow if point.imag < 8 * narrow else math.inf)
            else:
                more = 0.5 * (point.real - saddle) + 1.5 / max(-self.start, 1e-300)
                step = min(length, more) * _ONWARDS
            middles.append(point + step)
            halves.append(step)
            point += 2 * step
            share = height / abs(point) + min(height / (abs(point) * self.gain), mass)
            share = share * math.exp(max(self.start * point.real, -600.0)) + 1e-300
            if share < 0.7 * (1 - rest) or self.reports * share < 1e-3:
                left = (self.reports - 1) * math.log(rest + share) + math.log(self.reports * share / abs(point))
                if left <= least + math.log(0.1):
                    break
        return np.array(middles), np.array(halves), point

    def tail(self, path: Path, most: float) -> float:
        """Return a bound of ∫ |Im Φ(x)|/x² dx from zero to where the path begins.

        At that point, E[e^{xW}] without the ray of the first half is at most `most`.
        """
        rays, real, deviation = self.rays, self.rays.real, self.rays.deviation
        end, index = path.last, int(path.upper[-1])
        places = self._places(np.array([end]))
        log_tail = float(self._jumps(np.array([end]), places)[0])
        if log_tail == math.inf:
            return math.inf
        # From the edge on to the outer saddle e^{xW} times the density falls, and on the ray from there it does, too.
        place = float(places[0])
        first = rays.half + deviation * float(real.edges[index])
        if end * self.gain * (1 + float(real.reach[index])) > deviation * first:
            return math.inf
        steep = deviation * place
        between = -0.5 * first**2 + max(0.0, end * (self.start + self.gain * float(real.reach[index])))
        outside = math.exp(min(between, 600.0)) * max(place * (1 + 1e-5) - first, 0.0)
        for growth, share in ((steep, 6 + 2 / steep), (0.15 * steep + 2.2 * deviation**2, 2.4 + 1.2 / steep)):
            outside += deviation * math.exp(min(-0.5 * place**2 + growth, 600.0)) * share
        # |E[e^{xW}]| of t on the real axis up to an edge is convex in x; the rest of the path is a ray from there.
        most = max(1.0, most * (1 + 1e-12)) + outside
        return math.exp(min(log_tail + self.reports * math.log(most) * (1 + slack(8)), 700.0)) * (1 + 1e-9)

    def straight(self, turn: float, most: float, share: float) -> float:
        """Return a bound of ∫ |Φ(s) − Φ(∞)|/|s|² |ds| from the turn straight up.

        There |E[e^{sW}]| is at most `most`, and |E[e^{sW}; W ≠ 0]| at most `share`.
        """
        rest = math.erf(self.rays.half / math.sqrt(2))
        exponent = (self.reports - 1) * math.log(max(most, rest * (1 + slack(4))))
        bound = self.reports * share * math.exp(min(exponent + slack(64) * (self.reports + abs(exponent)), 600.0))
        return 1.001 * bound * math.pi / (2 * turn)

    def ending(self, end: complex, others: "Sequence[NormalPath]" = ()) -> Disc:
        """Return rays of the end of a path: of both halves from t = 1 on, and of the first one from farther on."""
        right, left = (float(angle[0]) for angle in falling(np.array([end])))
        edge = int(self.rays.edge(np.array([USUAL / (abs(end) * self.gain)]))[0])
        gains = np.array([self.gain, -1.0, self.gain])
        angles = np.array([right, left, right])
        ends = tuple((np.full(3, one.start), np.array([one.gain, -1.0, one.gain])) for one in others)
        return Disc(np.full(3, end), np.zeros(3), np.array([0, 0, edge]), angles, np.full(3, self.start), gains, ends)

    def above(self, discs: Disc, ray: Ray) -> float:
        """Return a bound of what lies beyond the end: of |E[e^{sW}; W ≠ 0]|, by parts or plainly, over |s|²."""
        real, end = self.rays.real, complex(discs.centres[0])
        first = float(self.rays.heights(np.zeros(1))[0]) * math.exp(self.start * end.real) * (1 + slack(64))
        size = abs(end)
        highest = self.start + self.gain * float(real.reach[discs.edges[2]])
        plainly = math.inf  # of |E[e^{sW}; half]| on the half with g > 0, for all s from the end on
        if highest <= 0:
            plainly = float(ray.sizes[0][2]) + math.exp(end.real * highest) * float(real.beyond[0]) * (1 + slack(64))
        share = min((first + float(ray.slopes[0])) / (self.gain * size), plainly)
        share += (first + float(ray.slopes[1])) / size
        exponent = (self.reports - 1) * math.log(math.erf(self.rays.half / math.sqrt(2)) + share)
        return 2.3 * self.reports * share * math.exp(min(exponent + slack(64) * self.reports, 600.0)) / size
