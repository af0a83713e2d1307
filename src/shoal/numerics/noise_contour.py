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
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shoal.numerics.complex_near_zero import expm1, log1p
from shoal.numerics.normal_disc import Disc
from shoal.numerics.normal_frame import NormalFrame, ratio_less_one
from shoal.numerics.normal_path import NormalPath
from shoal.numerics.normal_rays import rule
from shoal.rounding import slack

__all__ = ["ENOUGH", "Integrals", "NormalSum", "brackets"]

ENOUGH = 3e-5
"""If the two ends are farther apart than that, a better effort is worth while."""
_PLAIN = 2.0
"""Beyond this x·|start|, E[e^{sW}] is computed without its mean."""
_OFF = 2.0
"""By how much the logarithm of what is summed is seldom more than expected."""

Array = NDArray[np.float64]
Complex = NDArray[np.complex128]


class NormalSum(NormalPath):
    """The sum of n copies of W at one ε."""

    def ends(self, enough: float = ENOUGH) -> tuple[float, float]:
        """Return a lower and an upper bound of δ, this close if possible; they may say nothing."""
        lower, upper = brackets([self], enough)
        return float(lower[0]), float(upper[0])


def brackets(sums: Sequence[NormalSum], enough: float = ENOUGH) -> tuple[Array, Array]:
    """Return lower and upper bounds of δ, for the same noise and as many reports at each ε; they may say nothing.

    If the two ends are farther apart than `enough`, relatively, a better effort is made.
    That e^{−ε} and e^{−ε} − 1 are rounded is part of what is charged: without a side, both bounds hold at ε itself.
    """
    lower, upper = np.zeros(len(sums)), np.full(len(sums), math.inf)
    with np.errstate(over="ignore", under="ignore", invalid="ignore", divide="ignore"):
        left = np.arange(len(sums))
        for effort in sums[0].efforts:
            chosen = [sums[index] for index in left.tolist()]
            lows, highs = Integrals(chosen, [NormalFrame(one, (), effort) for one in chosen]).bounds()
            lower[left], upper[left] = np.maximum(lower[left], lows), np.minimum(upper[left], highs)
            left = left[upper[left] > lower[left] * (1 + enough)]
            if not len(left):
                break
    return lower, upper


class Integrals:
    """Integrals along paths, one for each ε: all of their panels are evaluated together."""

    def __init__(self, sums: Sequence[NormalSum], frames: Sequence[NormalFrame]) -> None:
        self.sums, self.frames = sums, frames
        self.paths, self.effort = [frame.path for frame in frames], frames[0].effort
        self.rays, self.reports = sums[0].rays, sums[0].reports
        self.rest = math.erf(self.rays.half / math.sqrt(2))
        counts = [len(path.centres) for path in self.paths]
        self.stops = np.cumsum(counts)
        self.owners = np.repeat(np.arange(len(sums)), counts)
        self.starts = np.repeat([one.start for one in sums], counts)
        self.steps = np.concatenate([path.steps for path in self.paths])
        gains = np.repeat([one.gain for one in sums], counts)
        self.halves = Disc(
            _by_halves([frame.discs.centres for frame in frames]),
            _by_halves([frame.discs.radii for frame in frames]),
            _by_halves([frame.discs.edges for frame in frames]),
            _by_halves([frame.discs.angles for frame in frames]),
            np.tile(self.starts, 2),
            np.concatenate((gains, np.full(len(gains), -1.0))),
        )
        count = len(self.steps)
        self.centres, self.radii = self.halves.centres[:count], self.halves.radii[:count]
        self.sizes, self.squares = (
            [_by_halves([getattr(frame.ray, name)[part] for frame in frames]) for part in (0, 1)]
            for name in ("sizes", "squares")
        )
        self.plain = -self.starts * self.centres.real > _PLAIN
        self.plain[self.stops - 1] = False
        self.series = _Series(self)

    def bounds(self) -> tuple[Array, Array]:
        """Return lower and upper bounds of δ at each ε."""
        largest, shares, middle, expected = self._known()
        beyond = []
        for one, frame, stop in zip(self.sums, self.frames, self.stops.tolist(), strict=True):
            if frame.ending is not None:
                beyond.append(one.above(frame.ending, frame.after))
            else:
                turn = stop - 2
                size = float(self.sizes[0][turn])
                most, share = (float(each[0][turn]) + size for each in (largest, shares))
                beyond.append(one.straight(frame.path.turn, most, share))
        tails = [one.tail(path, most) for one, path, most in zip(self.sums, self.paths, middle, strict=True)]
        wrong, kept = self._charged(largest, shares, expected)
        totals: Array = np.zeros(len(self.sums))
        if len(kept):
            terms, errors = self._terms(kept)
            totals = np.asarray(np.bincount(self.owners[kept], terms, len(self.sums)), dtype=np.float64)
            wrong = wrong + np.bincount(self.owners[kept], errors, len(self.sums))
        wrong = 1.001 * wrong + np.array(tails) + np.array(beyond)
        factors = np.array([1 / (one.gain * math.pi * self.reports) for one in self.sums])
        wrong = wrong + slack(64) * np.abs(totals)
        lower, upper = (totals - wrong) * factors * (1 - slack(16)), (totals + wrong) * factors * (1 + slack(16))
        useful = (lower <= upper) & (upper < math.inf)
        return np.where(useful, lower, 0.0), np.where(useful, upper, math.inf)

    def _values(
        self, rows: NDArray[np.int64], points: Complex, sums: Complex, around: Array | float = 0.0
    ) -> tuple[Complex, Complex, Array]:
        """Return E[e^{sW}] − 1 and E[e^{sW}; W ≠ 0] at points of these discs, and how wrong they may be.

        `sums` are those along the rays, of both halves. The error holds for all s no farther than `around`.
        """
        count = len(rows)
        both = np.concatenate((rows, rows + len(self.centres)))
        discs, plain = self.halves.chosen(both), self.plain[rows]
        places = points if points.imag.any() else points.real  # real numbers are faster
        axis, loose = self.rays.on_axis(discs, np.tile(places, (2, 1)), plain=np.tile(plain, 2), around=around)
        axis, loose = axis + sums, loose + self.series.wrong[both]
        values = np.where(plain[:, None], 0.0, points * self.starts[rows][:, None])
        wrong = slack(8) * np.abs(values).max(axis=1) + loose[:count] + loose[count:]
        values = values + axis[:count] + axis[count:]
        mass = 2 * self.rays.real.beyond[0]
        shifts = np.where(plain[:, None], mass, 0.0)
        return values - shifts, values + (mass - shifts), wrong

    def _known(self) -> tuple[list[Array], list[Array], list[float], Array]:
        """Return bounds of |E[e^{sW}]| in each disc and in half of it, of |E[e^{sW}; W ≠ 0]|, and next to zero.

        The last one is roughly what each panel adds, from its middle.
        """
        count = len(self.centres)
        sums, slopes = self.series.middles()
        values, shares, wrong = self._values(
            np.arange(count), self.centres[:, None], sums[:, None], np.tile(2 * self.radii, 2)
        )
        bends, squares = self.rays.bends(self.halves, parts=(1.0, 0.5))
        slopes = bends + slopes
        slope = np.abs(self.starts + slopes[:count] + slopes[count:])
        largest, most = [], []
        for index, part in enumerate((1.0, 0.5)):
            far = part * self.radii
            second = squares[index] + self.squares[index]
            second = second[:count] + second[count:]
            # By Cauchy, errors of the derivatives count no more than those of the values around.
            within = (far * slope + 0.5 * far**2 * second) * (1 + 1e-9) + 4 * wrong
            largest.append(np.abs(1 + values[:, 0]) + within)
            most.append(np.abs(shares[:, 0]) + within)
        last = self.stops - 1
        middle = (np.abs(1 + values[last, 0]) + wrong[last]).tolist()
        return largest, most, middle, self._expected(values[:, 0], shares[:, 0])

    def _expected(self, values: Complex, shares: Complex) -> Array:
        """Return roughly what each panel adds, from E[e^{sW}] − 1 and E[e^{sW}; W ≠ 0] in the middles."""
        logs, missing = self.reports * log1p(values), self.sums[0].missing
        away = self.reports * log1p(shares / self.rest)
        near = np.abs(away) < 0.5
        terms = np.where(
            near,
            math.exp(missing) * expm1(np.where(near, away, 0.0)),
            np.exp(np.minimum(logs.real, 600.0) + 1j * logs.imag) - math.exp(missing),
        )
        on_axis = 1j * np.exp(np.minimum(logs.real, 600.0)) * np.sin(logs.imag)
        terms = np.where(self.steps.imag == 0, on_axis, terms) * 2 * self.steps / self.centres**2
        return np.asarray(np.nan_to_num(terms.imag), dtype=np.float64)

    def _charged(self, largest: list[Array], shares: list[Array], expected: Array) -> tuple[Array, NDArray[np.int64]]:
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
            turned = self.reports * np.minimum(self.sizes[index][: len(sizes)], 1e50) * powers / largest[index]
            most.append(np.where(real, turned, np.minimum(powers + none, bound)) / (sizes - radii) ** 2)
        charges = 2 * half * most[1]
        smooth = half * most[0] * error
        wrong, kept = np.zeros(len(self.sums)), []
        for index, (frame, stop) in enumerate(zip(self.frames, self.stops.tolist(), strict=True)):
            first = stop - len(frame.path.centres)
            own = charges[first : stop - 2]  # without the turn and the point next to zero
            order = np.argsort(own)
            # No panel adds more than its charge, though rounding in its middle may.
            whole = abs(float(np.clip(expected[first : stop - 2], -own, own).sum()))
            whole = min(whole, math.exp(min(max(frame.path.expected + _OFF, -700.0), 700.0)))
            few = np.cumsum(own[order]) <= self.effort.left_out * whole
            rows = first + order[~few]
            wrong[index] = float(own[order[few]].sum() + smooth[rows].sum())
            kept.append(np.sort(rows))
        return wrong, np.concatenate(kept)

    def _terms(self, kept: NDArray[np.int64]) -> tuple[Array, Array]:
        """Return what these panels add to π·n·δ/e^ε, and how wrong that may be."""
        nodes, weights, _ = rule(self.effort.nodes)
        copies, none = self.reports, math.exp(self.sums[0].missing)
        steps, centres = self.steps[kept][:, None], self.centres[kept][:, None]
        real = (steps.imag == 0)[:, 0]
        points = np.asarray(centres + steps * nodes, dtype=np.complex128)
        sums = self.series.at(kept, points)
        values, shares, doubts = self._values(kept, points, sums)
        logs = log1p(values)
        sizes, angles = np.maximum(logs.real, -700.0), logs.imag
        vague = copies * 1.01 * doubts[:, None] / np.exp(sizes)
        powers = np.exp(copies * sizes)
        loose = slack(64) * (8 + copies * (np.abs(sizes) + np.abs(angles)))
        shifts = steps * weights / points**2
        weight = np.abs(shifts)
        turned = powers * np.sin(copies * angles) * weight
        turns = copies * 1.01 * self.series.wrong[kept, None] / np.exp(sizes)
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


class _Series:
    """The sums of e^{sW} along the rays of all panels of some ε, on both halves."""

    def __init__(self, integrals: Integrals) -> None:
        sums, frames = integrals.sums, integrals.frames
        self.centres, reach = integrals.halves.centres, integrals.rays.real.reach[integrals.halves.edges]
        firsts = [frame.expansion(one) for one, frame in zip(sums, frames, strict=True)]
        others = [frame.other for frame in frames]
        self.count = count = len(self.centres) // 2
        self.terms = [_padded([each.terms for each in some]) for some in (firsts, others)]
        self.reach = np.maximum(np.concatenate([each.reach for each in firsts + others]), 1e-300)
        sizes = [len(path.centres) for path in integrals.paths]
        ratios = np.repeat([ratio_less_one(*pair) for pair in zip(sums, firsts, strict=True)], sizes)
        moves = np.repeat([one.start - each.start for one, each in zip(sums, others, strict=True)], sizes)
        gains = np.repeat([each.gain for each in firsts], sizes)
        self.ratios = np.concatenate((ratios, np.zeros(count)))
        self.begins = integrals.halves.starts + integrals.halves.gains * reach
        self.shifts = self.centres * np.concatenate((ratios * gains * (1 + reach[:count]), moves))
        largest = np.exp(self.shifts.real + 0.5 * integrals.halves.radii * np.abs(self.begins))
        self.wrong = _by_halves([frame.ray.wrong for frame in frames]) + 1.01 * largest * np.concatenate(
            [each.wrong for each in firsts + others]
        )

    def at(self, rows: NDArray[np.int64], points: Complex) -> Complex:
        """Return the sums on both halves at points, a row of them for each of these panels."""
        both = np.concatenate((rows, rows + self.count))
        points = np.tile(points, (2, 1))
        moved = points - self.centres[both][:, None]
        steps = (moved + self.ratios[both][:, None] * points) / self.reach[both][:, None]
        total = np.zeros(points.shape, dtype=np.complex128)
        for half, terms in enumerate(self.terms):
            own = slice(half * len(rows), (half + 1) * len(rows))
            part, step, kept = total[own], steps[own], terms[rows]
            for order in range(kept.shape[1] - 1, -1, -1):
                part *= step
                part += kept[:, order, None]
        return np.asarray(total * np.exp(moved * self.begins[both][:, None] + self.shifts[both][:, None]))

    def middles(self) -> tuple[Complex, Complex]:
        """Return the sums in the middles of all discs, and their derivatives there."""
        steps = self.ratios * self.centres / self.reach
        total, slope = np.zeros((2, len(steps)), dtype=np.complex128)
        first, other = self.terms
        step = steps[: self.count]
        for order in range(first.shape[1] - 1, -1, -1):
            slope[: self.count] = slope[: self.count] * step + total[: self.count]
            total[: self.count] = total[: self.count] * step + first[:, order]
        # On the other half, the middle is where the series is about.
        total[self.count :] = other[:, 0]
        slope[self.count :] = other[:, 1] if other.shape[1] > 1 else 0.0
        factors = np.exp(self.shifts)
        return total * factors, (self.begins * total + (1 + self.ratios) * slope / self.reach) * factors


def _padded(parts: Sequence[Complex]) -> Complex:
    """Return these rows of coefficients below one another, with zeros at the end of the shorter ones."""
    most = max(part.shape[1] for part in parts)
    return np.concatenate([np.pad(part, ((0, 0), (0, most - part.shape[1]))) for part in parts])


def _by_halves(parts: Sequence[Any]) -> Any:
    """Return all first halves of these arrays, one after the other, and then all second ones."""
    return np.concatenate([part[: len(part) // 2] for part in parts] + [part[len(part) // 2 :] for part in parts])
