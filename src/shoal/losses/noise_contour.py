"""δ(ε) of n shuffled reports with normal noise, from both sides: a contour that turns off the real axis at a saddle.

With W in units of e^ε, Φ(s) = E[e^{sW}]ⁿ, continued from the upper half plane (`normal_rays`), and any path Γ that
leaves 0 along the positive real axis and goes to i∞ (docs/theory/numerics.md, section 2.7),

    δ(ε)  =  e^ε/(πn) · Im ∫_Γ  (Φ(s) − Φ(∞))/s²  ds.

On the real axis the integrand is Im Φ(x)/x²: that a single W as large as 1/x makes the sum positive. From a saddle on,
the path goes straight up. Both parts are cut into panels with Gauss's rule, and the error of each is bounded by the
largest value within a disc. A panel that does not count is charged with that value.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.losses.complex_near_zero import expm1, log1p
from shoal.losses.normal_disc import Disc, Ray
from shoal.losses.normal_rays import LARGEST, USUAL, falling, rule
from shoal.losses.normal_tilt import Effort, NormalTilt
from shoal.rounding import slack

__all__ = ["NormalSum", "brackets"]

_WIDE = 0.35
"""Radius of a disc over the distance of its middle from zero."""
_ONWARDS = (0.5 + 1j) / math.sqrt(1.25)
"""The direction of the path from a few widths of the saddle on."""
_PART = 0.15
"""Half the length of a panel on the real axis, in log x."""
_MOST_PANELS, _SOME = 400, 6
_ENOUGH = 3e-5
"""If the two ends are farther apart than that, a better effort is worth while."""
_PLAIN = 2.0
"""Beyond this x·|start|, E[e^{sW}] is computed without its mean."""

Array = NDArray[np.float64]
Complex = NDArray[np.complex128]


class _Path(NamedTuple):
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
    last : float
        Where the part on the real axis ends, next to zero; the last disc is this point, which is no panel.
    end : complex
        Where the path ends.
    expected : float
        Roughly the logarithm of what is summed.
    """

    centres: Complex
    steps: Complex
    radii: Array
    upper: NDArray[np.int64]
    lower: NDArray[np.int64]
    angles: tuple[Array, Array]
    last: float
    end: complex
    expected: float


class NormalSum(NormalTilt):
    """The sum of n copies of W at one ε."""

    def ends(self) -> tuple[float, float]:
        """Return a lower and an upper bound of δ; they may say nothing."""
        lower, upper = brackets([self])
        return float(lower[0]), float(upper[0])

    def path(self, saddle: float, narrow: float, expected: float, effort: Effort) -> _Path:
        """Return a path that turns at a part of the saddle."""
        rays, saddle, left_out = self.rays, effort.share * saddle, effort.left_out
        ends, most = self._real_panels(saddle, expected, left_out)
        centres, lengths, last = 0.5 * (ends[:-1] + ends[1:]), 0.5 * (ends[:-1] - ends[1:]), float(ends[-1])
        upwards, steps, end = self._vertical_panels(saddle, narrow, expected + math.log(left_out))
        outer = int(self._outer(np.array([saddle]))[0])
        sizes = np.abs(upwards)
        over = rays.edge(USUAL / (upwards.imag * self.gain))
        over = np.minimum(np.minimum(over, rays.edge(0.5 * LARGEST / (sizes * self.gain))), outer)
        over = np.maximum(over, rays.far(sizes * self.gain))
        under = np.maximum(rays.edge(USUAL / sizes), rays.far(sizes))
        below = np.append(centres, last)
        upper = np.minimum(self._outer(below), rays.edge(LARGEST / (below * self.gain)))
        right, left = falling(upwards)
        count = len(centres)
        return _Path(
            np.concatenate((centres, upwards, [last])),
            np.concatenate((lengths, steps, [0.0])),
            np.concatenate((2 * lengths, 2 * np.abs(steps), [0.0])),
            np.concatenate((upper[:-1], over, upper[-1:])),
            np.concatenate((rays.edge(USUAL / centres), under, rays.edge(np.array([USUAL / last])))),
            (
                np.concatenate((np.full(count, 3 * math.pi / 4), right, [3 * math.pi / 4])),
                np.concatenate((np.zeros(count), left, [0.0])),
            ),
            last,
            end,
            float(np.logaddexp(expected, most - 8)),
        )

    def _real_panels(self, saddle: float, expected: float, left_out: float) -> tuple[Array, float]:
        """Return ends of panels from the saddle towards zero, and roughly the log of what they add."""
        ends = saddle * np.exp(-2 * _PART * np.arange(_MOST_PANELS + 1))
        tails = self._jumps(ends)
        sizes = tails[::_SOME] + self._rough(ends[::_SOME])[0]
        most = max(float(sizes[np.isfinite(sizes)].max(initial=-math.inf)) - 2, expected)
        enough = np.flatnonzero(tails <= most + math.log(1e-4 * left_out))
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

    def tail(self, path: _Path, most: float) -> float:
        """Return a bound of ∫ |Im Φ(x)|/x² dx from zero to where the path begins.

        At that point, E[e^{xW}] without the ray of the first half is at most `most`.
        """
        rays, real, deviation = self.rays, self.rays.real, self.rays.deviation
        end, index = path.last, int(path.upper[-1])
        log_tail = float(self._jumps(np.array([end]))[0])
        if log_tail == math.inf:
            return math.inf
        # From the edge on to the outer saddle e^{xW} times the density falls, and on the ray from there it does, too.
        place = float(self._places(np.array([end]))[0])
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

    def ending(self, end: complex) -> Disc:
        """Return rays of the end of a path: of both halves from t = 1 on, and of the first one from farther on."""
        right, left = (float(angle[0]) for angle in falling(np.array([end])))
        edge = int(self.rays.edge(np.array([USUAL / (abs(end) * self.gain)]))[0])
        gains = np.array([self.gain, -1.0, self.gain])
        angles = np.array([right, left, right])
        return Disc(np.full(3, end), np.zeros(3), np.array([0, 0, edge]), angles, np.full(3, self.start), gains)

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


def brackets(sums: Sequence[NormalSum]) -> tuple[Array, Array]:
    """Return lower and upper bounds of δ, for the same noise and as many reports at each ε; they may say nothing.

    That e^{−ε} and e^{−ε} − 1 are rounded is part of what is charged: without a side, both bounds hold at ε itself.
    """
    lower, upper = np.zeros(len(sums)), np.full(len(sums), math.inf)
    with np.errstate(over="ignore", under="ignore", invalid="ignore", divide="ignore"):
        saddles = [one._saddle() for one in sums]
        left = np.arange(len(sums))
        for effort in sums[0].efforts:
            chosen = [sums[index] for index in left.tolist()]
            paths = [sums[index].path(*saddles[index], effort) for index in left.tolist()]
            lows, highs = _Integrals(chosen, paths, effort).bounds()
            lower[left], upper[left] = np.maximum(lower[left], lows), np.minimum(upper[left], highs)
            left = left[upper[left] > lower[left] * (1 + _ENOUGH)]
            if not len(left):
                break
    return lower, upper


class _Integrals:
    """Integrals along paths, one for each ε: all of their panels are evaluated together."""

    def __init__(self, sums: Sequence[NormalSum], paths: Sequence[_Path], effort: Effort) -> None:
        self.sums, self.paths, self.effort = sums, paths, effort
        self.rays, self.reports = sums[0].rays, sums[0].reports
        self.rest = math.erf(self.rays.half / math.sqrt(2))
        counts = [len(path.centres) for path in paths]
        self.stops = np.cumsum(counts)
        self.owners = np.repeat(np.arange(len(sums)), counts)
        self.starts = np.repeat([one.start for one in sums], counts)
        self.centres = np.concatenate([path.centres for path in paths])
        self.steps = np.concatenate([path.steps for path in paths])
        self.radii = np.concatenate([path.radii for path in paths])
        gains = np.repeat([one.gain for one in sums], counts)
        self.halves = Disc(
            np.tile(self.centres, 2),
            np.tile(self.radii, 2),
            np.concatenate([path.upper for path in paths] + [path.lower for path in paths]),
            np.concatenate([path.angles[half] for half in (0, 1) for path in paths]),
            np.tile(self.starts, 2),
            np.concatenate((gains, np.full(len(gains), -1.0))),
        )
        self.plain = -self.starts * self.centres.real > _PLAIN
        self.plain[self.stops - 1] = False

    def bounds(self) -> tuple[Array, Array]:
        """Return lower and upper bounds of δ at each ε."""
        count = len(self.centres)
        endings = [one.ending(path.end) for one, path in zip(self.sums, self.paths, strict=True)]
        discs = Disc(*(np.concatenate(parts) for parts in zip(self.halves, *endings, strict=True)))
        ray = self.rays.along(discs, self.effort.along)
        beyond = [
            one.above(disc, ray.chosen(slice(2 * count + 3 * index, 2 * count + 3 * index + 3)))
            for index, (one, disc) in enumerate(zip(self.sums, endings, strict=True))
        ]
        ray = ray.chosen(slice(0, 2 * count))
        points = self.stops - 1
        ray.weights[points] = 0.0  # next to zero, the ray of the first half is bounded otherwise
        ray.wrong[points] = 0.0
        largest, shares, middle = self._known(ray)
        tails = [one.tail(path, most) for one, path, most in zip(self.sums, self.paths, middle, strict=True)]
        wrong, kept = self._charged(largest, shares, ray)
        totals: Array = np.zeros(len(self.sums))
        if len(kept):
            terms, errors = self._terms(kept, ray)
            totals = np.asarray(np.bincount(self.owners[kept], terms, len(self.sums)), dtype=np.float64)
            wrong = wrong + np.bincount(self.owners[kept], errors, len(self.sums))
        wrong = 1.001 * wrong + np.array(tails) + np.array(beyond)
        factors = np.array([1 / (one.gain * math.pi * self.reports) for one in self.sums])
        wrong = wrong + slack(64) * np.abs(totals)
        lower, upper = (totals - wrong) * factors * (1 - slack(16)), (totals + wrong) * factors * (1 + slack(16))
        useful = (lower <= upper) & (upper < math.inf)
        return np.where(useful, lower, 0.0), np.where(useful, upper, math.inf)

    def _values(
        self, rows: NDArray[np.int64], points: Complex, ray: Ray, sums: Complex, around: Array | float = 0.0
    ) -> tuple[Complex, Complex, Array]:
        """Return E[e^{sW}] − 1 and E[e^{sW}; W ≠ 0] at points of these discs, and how wrong they may be.

        `sums` are those along the rays, of both halves. The error holds for all s no farther than `around`.
        """
        count = len(rows)
        discs, plain = self.halves.chosen(np.concatenate((rows, rows + len(self.centres)))), self.plain[rows]
        axis, loose = self.rays.on_axis(discs, np.tile(points, (2, 1)), plain=np.tile(plain, 2), around=around)
        axis, loose = axis + sums, loose + ray.wrong
        values = np.where(plain[:, None], 0.0, points * self.starts[rows][:, None])
        wrong = slack(8) * np.abs(values).max(axis=1) + loose[:count] + loose[count:]
        values = values + axis[:count] + axis[count:]
        mass = 2 * self.rays.real.beyond[0]
        shifts = np.where(plain[:, None], mass, 0.0)
        return values - shifts, values + (mass - shifts), wrong

    def _known(self, ray: Ray) -> tuple[list[Array], list[Array], list[float]]:
        """Return bounds of |E[e^{sW}]| in each disc and in half of it, of |E[e^{sW}; W ≠ 0]|, and next to zero."""
        count = len(self.centres)
        rows = np.arange(count)
        powers = ray.powers(self.halves.centres)
        sums = powers.sum(axis=1)[:, None]
        values, shares, wrong = self._values(rows, self.centres[:, None], ray, sums, np.tile(2 * self.radii, 2))
        bends, squares = self.rays.bends(self.halves, parts=(1.0, 0.5))
        slopes = bends + (powers * ray.values).sum(axis=1)
        slope = np.abs(self.starts + slopes[:count] + slopes[count:])
        largest, most = [], []
        for index, part in enumerate((1.0, 0.5)):
            far = part * self.radii
            second = squares[index] + ray.squares[index]
            second = second[:count] + second[count:]
            # By Cauchy, errors of the derivatives count no more than those of the values around.
            within = (far * slope + 0.5 * far**2 * second) * (1 + 1e-9) + 4 * wrong
            largest.append(np.abs(1 + values[:, 0]) + within)
            most.append(np.abs(shares[:, 0]) + within)
        last = self.stops - 1
        return largest, most, (np.abs(1 + values[last, 0]) + wrong[last]).tolist()

    def _charged(self, largest: list[Array], shares: list[Array], ray: Ray) -> tuple[Array, NDArray[np.int64]]:
        """Return by how much each sum is wrong, and the panels that are worth nodes; the others are charged."""
        error = rule(self.effort.nodes)[2]
        none = np.exp(self.sums[0].missing)
        sizes, half = np.abs(self.centres), self.radii / 2
        real = self.steps.imag == 0
        most = []
        for index, radii in enumerate((self.radii, half)):
            powers = np.exp(np.minimum(self.reports * np.log(largest[index]) * (1 + slack(8)), 600.0))
            bound = self.reports * shares[index] * np.maximum(powers / largest[index], none / self.rest)
            # On the real axis, Φ less its mirror image.
            turned = self.reports * np.minimum(ray.sizes[index][: len(sizes)], 1e50) * powers / largest[index]
            most.append(np.where(real, turned, np.minimum(powers + none, bound)) / (sizes - radii) ** 2)
        charges = 2 * half * most[1]
        smooth = half * most[0] * error
        wrong, kept = np.zeros(len(self.sums)), []
        for index, (path, stop) in enumerate(zip(self.paths, self.stops.tolist(), strict=True)):
            first = stop - len(path.centres)
            own = charges[first : stop - 1]  # without the point next to zero
            order = np.argsort(own)
            few = np.cumsum(own[order]) <= self.effort.left_out * math.exp(max(path.expected, -600.0))
            rows = first + order[~few]
            wrong[index] = float(own[order[few]].sum() + smooth[rows].sum())
            kept.append(np.sort(rows))
        return wrong, np.concatenate(kept)

    def _terms(self, kept: NDArray[np.int64], ray: Ray) -> tuple[Array, Array]:
        """Return what these panels add to π·n·δ/e^ε, and how wrong that may be."""
        nodes, weights, _ = rule(self.effort.nodes)
        copies, none = self.reports, math.exp(self.sums[0].missing)
        steps, centres = self.steps[kept][:, None], self.centres[kept][:, None]
        real = (steps.imag == 0)[:, 0]
        points = np.asarray(centres + steps * nodes, dtype=np.complex128)
        own = ray.chosen(np.concatenate((kept, kept + len(self.centres))))
        sums, lost = own.sums(np.tile(centres[:, 0], 2), np.tile(steps[:, 0], 2), nodes)
        own = own._replace(wrong=own.wrong + lost)
        values, shares, doubts = self._values(kept, points, own, sums)
        logs = log1p(values)
        sizes, angles = np.maximum(logs.real, -700.0), logs.imag
        vague = copies * 1.01 * doubts[:, None] / np.exp(sizes)
        powers = np.exp(copies * sizes)
        loose = slack(64) * (8 + copies * (np.abs(sizes) + np.abs(angles)))
        shifts = steps * weights / points**2
        weight = np.abs(shifts)
        turned = powers * np.sin(copies * angles) * weight
        turns = copies * 1.01 * own.wrong[: len(kept), None] / np.exp(sizes)
        doubtful = powers * (copies * np.abs(angles) * np.expm1(vague + loose) + turns) * weight
        # Φ − Φ(∞), from the difference of logarithms where that is small.
        away = copies * log1p(shares / self.rest)
        near = np.abs(away) < 0.5
        changes = np.where(near, none * expm1(np.where(near, away, 0.0)), powers * np.exp(1j * copies * angles) - none)
        rounding = np.where(near, slack(256) * np.abs(changes), (powers + none) * loose)
        terms = (changes * shifts).imag
        errors = (powers * np.expm1(np.minimum(vague, 600.0)) + rounding) * weight
        return (
            np.where(real[:, None], turned, terms).sum(axis=1),
            np.where(real[:, None], doubtful, errors).sum(axis=1),
        )
