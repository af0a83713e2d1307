"""δ(ε) of n shuffled reports with normal noise, from both sides: a contour that turns off the real axis at a saddle.

With W in units of e^ε, Φ(s) = E[e^{sW}]ⁿ, continued from the upper half plane (`normal_rays`), and any path Γ that
leaves 0 along the positive real axis and goes to i∞ (docs/theory/numerics.md, section 2.7),

    δ(ε)  =  e^ε/(πn) · Im ∫_Γ  (Φ(s) − Φ(∞))/s²  ds.

On the real axis the integrand is Im Φ(x)/x²: that a single W as large as 1/x makes the sum positive. From a saddle on,
the path goes straight up. Both parts are cut into panels with Gauss's rule, and the error of each is bounded by the
largest value within a disc. A panel that does not count is charged with that value.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.losses.complex_near_zero import expm1, log1p
from shoal.losses.normal_rays import LARGEST, USUAL, Disc, Ray, falling, rule
from shoal.losses.normal_tilt import NormalTilt
from shoal.rounding import slack

__all__ = ["NormalSum"]

_NODES = 10
_WIDE = 0.35
"""Radius of a disc over the distance of its middle from zero."""
_ONWARDS = (0.5 + 1j) / math.sqrt(1.25)
"""The direction of the path from a few widths of the saddle on."""
_PART = 0.15
"""Half the length of a panel of log x."""
_LEFT_OUT = 1e-9
"""Which part of δ a panel may have that is charged, or that lies beyond the last one."""
_MOST_PANELS, _SOME = 400, 6
_SHARES, _ENOUGH = (1.0, 0.8), 3e-5
"""Of the saddle: where else the path may turn, if the two ends are farther apart than that."""
_PLAIN = 2.0
"""Beyond this x·|start|, E[e^{sW}] is computed without its mean."""

Array = NDArray[np.float64]
Complex = NDArray[np.complex128]


class _Known(NamedTuple):
    """Bounds of |E[e^{sW}]| within each disc and within half of it, and of |E[e^{sW}; W ≠ 0]|; and rays."""

    largest: tuple[Array, Array]
    shares: tuple[Array, Array]
    rays: tuple[Ray, Ray]


class NormalSum(NormalTilt):
    """The sum of n copies of W at one ε."""

    def ends(self) -> tuple[float, float]:
        """Return a lower and an upper bound of δ; they may say nothing."""
        with np.errstate(over="ignore", under="ignore", invalid="ignore", divide="ignore"):
            saddle, narrow, expected = self._saddle()
            lower, upper = 0.0, math.inf
            for share in _SHARES:
                ends = self._ends(share * saddle, narrow, expected)
                lower, upper = max(lower, ends[0]), min(upper, ends[1])
                if upper <= lower * (1 + _ENOUGH):
                    break
        return lower, upper

    def _ends(self, saddle: float, narrow: float, expected: float) -> tuple[float, float]:
        """Return bounds of δ from a path that turns at this point."""
        real, wrong = self._real_panels(saddle, expected)
        upwards, steps, end = self._vertical_panels(saddle, narrow, expected)
        wrong += self._above(end)
        total = 0.0
        for panels, lengths in ((real, None), (upwards, steps)):
            if len(panels.centres):
                value, error = self._sum(panels, lengths, math.exp(max(expected, -600.0)) + 0.1 * abs(total))
                total, wrong = total + value, wrong + error
        factor = 1 / (self.gain * math.pi * self.reports)
        rounding = slack(64) * abs(total)
        lower, upper = (total - wrong - rounding) * factor, (total + wrong + rounding) * factor * (1 + slack(16))
        return (lower * (1 - slack(16)), upper) if lower <= upper < math.inf else (0.0, math.inf)

    def _real_panels(self, saddle: float, expected: float) -> tuple[Disc, float]:
        """Return panels from the saddle towards zero, and a bound of what lies beyond the last one."""
        ends = saddle * np.exp(-2 * _PART * np.arange(_MOST_PANELS + 1))
        tails = self._jumps(ends)
        sizes = tails[::_SOME] + self._rough(ends[::_SOME])[0]
        most = max(float(sizes[np.isfinite(sizes)].max(initial=-math.inf)) - 2, expected)
        enough = np.flatnonzero(tails <= most + math.log(1e-4 * _LEFT_OUT))
        last = int(enough[0]) if len(enough) else _MOST_PANELS
        centres = saddle * np.exp(-2 * _PART * (np.arange(last) + 0.5))
        upper = np.minimum(self._outer(centres), self.rays.edge(LARGEST / (centres * self.gain)))
        angles = np.full(last, 3 * math.pi / 4), np.zeros(last)
        radii = centres * math.expm1(2 * _PART)
        panels = Disc(centres.astype(np.complex128), radii, upper, self.rays.edge(USUAL / centres), angles)
        return panels, self._tail(float(ends[last]))

    def _tail(self, end: float) -> float:
        """Return a bound of ∫ |Im Φ(x)|/x² dx from zero to the end."""
        rays, real, deviation = self.rays, self.rays.real, self.rays.deviation
        log_tail = float(self._jumps(np.array([end]))[0])
        if log_tail == math.inf:
            return math.inf
        # |E[e^{xW}]| of t on the real axis up to an edge is convex in x; the rest of the path is a ray from there.
        edge = np.minimum(self._outer(np.array([end])), rays.edge(np.array([LARGEST / (end * self.gain)])))
        lower = rays.edge(np.array([USUAL / end]))
        point = np.array([[end + 0j]])
        disc = Disc(point[0], np.zeros(1), edge, lower, (np.zeros(1), np.zeros(1)))
        ray = rays.along(disc, self.start, -1.0)
        total = 1 + end * self.start + float(ray.wrong[0])
        total += float((ray.weights * np.exp(point[0] * ray.values)).sum().real)
        for gain, edges in ((self.gain, edge), (-1.0, lower)):
            value, wrong = rays.on_axis(point, self.start, gain, edges, plain=np.zeros(1, dtype=bool))
            total += float(value[0, 0].real + wrong[0, 0])
        # From the edge on to the outer saddle e^{xW} times the density falls, and on the ray from there it does, too.
        index, place = int(edge[0]), float(self._places(np.array([end]))[0])
        first = rays.half + deviation * float(real.edges[index])
        if end * self.gain * (1 + float(real.reach[index])) > deviation * first:
            return math.inf
        steep = deviation * place
        between = -0.5 * first**2 + max(0.0, end * (self.start + self.gain * float(real.reach[index])))
        outside = math.exp(min(between, 600.0)) * max(place * (1 + 1e-5) - first, 0.0)
        for growth, share in ((steep, 6 + 2 / steep), (0.15 * steep + 2.2 * deviation**2, 2.4 + 1.2 / steep)):
            outside += deviation * math.exp(min(-0.5 * place**2 + growth, 600.0)) * share
        most = max(1.0, total * (1 + 1e-12)) + outside
        return math.exp(min(log_tail + self.reports * math.log(most) * (1 + slack(8)), 700.0)) * (1 + 1e-9)

    def _vertical_panels(self, saddle: float, narrow: float, expected: float) -> tuple[Disc, Complex, complex]:
        """Return panels from the saddle upwards and then to the right, their half lengths, and where they end."""
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
                if left <= expected + math.log(0.1 * _LEFT_OUT):
                    break
        centres, steps = np.array(middles), np.array(halves)
        sizes = np.abs(centres)
        outer = int(self._outer(np.array([saddle]))[0])
        upper = rays.edge(USUAL / (centres.imag * self.gain))
        upper = np.minimum(np.minimum(upper, rays.edge(0.5 * LARGEST / (sizes * self.gain))), outer)
        upper = np.maximum(upper, rays.far(sizes * self.gain))
        lower = np.maximum(rays.edge(USUAL / sizes), rays.far(sizes))
        return Disc(centres, 2 * np.abs(steps), upper, lower, falling(centres)), steps, point

    def _known(self, discs: Disc) -> _Known:
        """Return bounds that hold within each disc."""
        values, shares, wrong, rays = self._values(discs, discs.centres[:, None], None)
        slopes = np.full(len(values), self.start, dtype=np.complex128)
        largest, most = [], []
        halves = ((rays[0], self.gain, discs.upper), (rays[1], -1.0, discs.lower))
        for ray, gain, edges in halves:
            slopes = slopes + self.rays.slopes(discs.centres, self.start, gain, edges)
            slopes = slopes + (ray.weights * ray.values * np.exp(discs.centres[:, None] * ray.values)).sum(axis=1)
        for index, part in enumerate((1.0, 0.5)):
            far = part * discs.radii
            second = np.zeros(len(values))
            for ray, gain, edges in halves:
                ends = [self.rays.squares(discs.centres.real + side * far, self.start, gain, edges) for side in (-1, 1)]
                second = second + np.maximum(ends[0], ends[1]) + ray.squares[index]
            # By Cauchy, errors of the derivatives count no more than those of the values around.
            within = (far * np.abs(slopes) + 0.5 * far**2 * second) * (1 + 1e-9) + 4 * wrong
            largest.append(np.abs(1 + values[:, 0]) + within)
            most.append(np.abs(shares[:, 0]) + within)
        return _Known((largest[0], largest[1]), (most[0], most[1]), rays)

    def _values(
        self, discs: Disc, points: Complex, rays: tuple[Ray, Ray] | None
    ) -> tuple[Complex, Complex, Array, tuple[Ray, Ray]]:
        """Return E[e^{sW}] − 1 and E[e^{sW}; W ≠ 0] at points of the discs, and how wrong they may be.

        Without rays, how wrong they may be anywhere in the discs.
        """
        around: Array | float = 0.0
        if rays is None:
            rays = self.rays.along(discs, self.start, self.gain), self.rays.along(discs, self.start, -1.0)
            around = 2 * discs.radii
        plain = -self.start * discs.centres.real > _PLAIN
        values = np.where(plain[:, None], 0.0, points * self.start)
        wrong = slack(8) * np.abs(values).max(axis=1)
        for ray, gain, edges in ((rays[0], self.gain, discs.upper), (rays[1], -1.0, discs.lower)):
            axis, loose = self.rays.on_axis(points, self.start, gain, edges, plain=plain, around=around)
            values = values + axis + _transformed(points, ray)
            wrong = wrong + loose.max(axis=1) + ray.wrong
        mass = 2 * self.rays.real.beyond[0]
        shifts = np.where(plain[:, None], mass, 0.0)
        return values - shifts, values + (mass - shifts), wrong, rays

    def _sum(self, panels: Disc, steps: Complex | None, expected: float) -> tuple[float, float]:
        """Return π·n·δ/e^ε of these panels, and how wrong it may be; without steps, of those on the real axis."""
        known = self._known(panels)
        nodes, weights, error = rule(_NODES)
        copies, none = self.reports, math.exp(self.missing)
        rest = math.erf(self.rays.half / math.sqrt(2))
        sizes, half = np.abs(panels.centres), panels.radii / 2
        lengths = half if steps is not None else np.full(len(half), _PART)
        most = []
        for index, radii in enumerate((panels.radii, half)):
            largest = known.largest[index]
            powers = np.exp(np.minimum(copies * np.log(largest) * (1 + slack(8)), 600.0))
            if steps is not None:
                bound = copies * known.shares[index] * np.maximum(powers / largest, none / rest)
                most.append(np.minimum(powers + none, bound) / (sizes - radii) ** 2)
            else:  # Φ less its mirror image, and ds/s² = du/s
                most.append(copies * np.minimum(known.rays[0].sizes[index], 1e50) * powers / largest / (sizes - radii))
        charges = 2 * lengths * most[1]
        smooth = lengths * most[0] * error
        order = np.argsort(charges)
        skipped = np.zeros(len(charges), dtype=bool)
        summed = np.cumsum(charges[order])
        skipped[order[summed <= _LEFT_OUT * expected]] = True
        wrong = float(charges[skipped].sum() + smooth[~skipped].sum())
        kept = np.flatnonzero(~skipped)
        if not len(kept):
            return 0.0, wrong * 1.001
        discs = panels.chosen(kept)
        rays = [
            ray._replace(values=ray.values[kept], weights=ray.weights[kept], wrong=ray.wrong[kept])
            for ray in known.rays
        ]
        if steps is not None:
            points = discs.centres[:, None] + steps[kept][:, None] * nodes
        else:
            points = (discs.centres.real[:, None] * np.exp(_PART * nodes)).astype(np.complex128)
        values, shares, doubts, _ = self._values(discs, points, (rays[0], rays[1]))
        logs = log1p(values)
        sizes, angles = np.maximum(logs.real, -700.0), logs.imag
        vague = copies * 1.01 * doubts[:, None] / np.exp(sizes)
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            powers = np.exp(copies * sizes)
            loose = slack(64) * (8 + copies * (np.abs(sizes) + np.abs(angles)))
            if steps is None:
                weight = lengths[kept][:, None] * weights / points.real
                terms = powers * np.sin(copies * angles) * weight
                turns = copies * 1.01 * rays[0].wrong[:, None] / np.exp(sizes)
                errors = powers * (copies * np.abs(angles) * np.expm1(vague + loose) + turns) * weight
            else:
                # Φ − Φ(∞), from the difference of logarithms where that is small.
                away = copies * log1p(shares / rest)
                near = np.abs(away) < 0.5
                changes = np.where(
                    near, none * expm1(np.where(near, away, 0.0)), powers * np.exp(1j * copies * angles) - none
                )
                rounding = np.where(near, slack(256) * np.abs(changes), (powers + none) * loose)
                shifts = steps[kept][:, None] * weights / points**2
                terms = (changes * shifts).imag
                errors = (powers * np.expm1(np.minimum(vague, 600.0)) + rounding) * np.abs(shifts)
        return float(terms.sum()), 1.001 * (wrong + float(errors.sum()))

    def _above(self, end: complex) -> float:
        """Return a bound of what lies beyond the end: of |E[e^{sW}; W ≠ 0]|, by parts or plainly, over |s|²."""
        nothing = np.zeros(1, dtype=np.int64)
        last = Disc(np.array([end]), np.zeros(1), nothing, nothing, falling(np.array([end])))
        first = float(self.rays.heights(np.zeros(1))[0]) * math.exp(self.start * end.real) * (1 + slack(64))
        size = abs(end)
        share = 0.0
        for gain in (self.gain, -1.0):
            parts = (first + float(self.rays.along(last, self.start, gain).slopes[0])) / (abs(gain) * size)
            share += min(parts, self._plainly(end)) if gain > 0 else parts
        exponent = (self.reports - 1) * math.log(math.erf(self.rays.half / math.sqrt(2)) + share)
        return 2.3 * self.reports * share * math.exp(min(exponent + slack(64) * self.reports, 600.0)) / size

    def _plainly(self, end: complex) -> float:
        """Return a bound of |E[e^{sW}; half]| on the half with g > 0 for all s from the end on, or infinity."""
        real = self.rays.real
        edge = self.rays.edge(np.array([USUAL / (abs(end) * self.gain)]))
        highest = self.start + self.gain * float(real.reach[edge[0]])
        if highest > 0:
            return math.inf
        point = np.array([end])
        ray = self.rays.along(Disc(point, np.zeros(1), edge, edge, falling(point)), self.start, self.gain)
        return float(ray.sizes[0][0]) + math.exp(end.real * highest) * float(real.beyond[0]) * (1 + slack(64))


def _transformed(points: Complex, ray: Ray) -> Complex:
    """Return the sums of e^{sW} along each ray, at the points of its row."""
    if points.imag.any() or ray.values.imag.any() or ray.weights.imag.any():
        powers = np.exp(points[:, :, None] * ray.values[:, None, :])
        return np.asarray((powers @ ray.weights[:, :, None])[:, :, 0])
    growths = np.exp(points.real[:, :, None] * ray.values.real[:, None, :])  # real numbers are faster
    return np.asarray((growths @ ray.weights.real[:, :, None])[:, :, 0].astype(np.complex128))
