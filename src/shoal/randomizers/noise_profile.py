"""The privacy blanket of noise on a number in an interval: δ(ε) and ε(δ) of n shuffled reports, from both sides."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial

import numpy as np
from numpy.typing import NDArray

from shoal.checks import SMALLEST_DELTA
from shoal.numerics.delta_grid import Brackets, DeltaGrid, Mesh, each, grid_of, remembered
from shoal.numerics.jump_frame import JumpFrame, Outline
from shoal.numerics.noise_contour import ENOUGH, NormalSum
from shoal.numerics.noise_delta import NoiseFrame, Saddle
from shoal.numerics.noise_ratio import GaussianRatio, NoiseRatio
from shoal.numerics.normal_curve import NormalCurve
from shoal.numerics.normal_sketch import NormalSketch
from shoal.pairs import ClonePair, gaussian_guess
from shoal.privacy_profile import UpperProfile
from shoal.rounding import slack
from shoal.searches import bisect_safe, bracketed, doubled, smallest_safe

__all__ = ["NoiseProfile"]

_PRECISION, _FINEST, _COARSEST = 1e-5, 3e-7, 2e-3
"""What discretising may change of ε, relatively; and for that of δ, at least and at most."""
_ASKED = 1.5e-5
"""What it may change of δ where that is asked for: the two ends are about three times as far apart."""
_KNOTS, _KNOT = 3.0, 1e-2
"""On a grid of normal noise: how much coarser it is, and which bounds are worth a lattice."""
_KNOWN = 3e-4
"""How close both ends are to be there."""
_GRIDDED = 1e-4
"""On a grid, what discretising may change of δ,"""
_ALMOST = 0.03
"""and which part of that at least, where δ is next to one."""
_ENOUGH, _LEAST, _MOST = 1e-4, 1.5, 10.0
"""Bounds farther apart are not good enough: a lattice is tried too for so much noise, and it alone for even more."""
_LONELY = 1e-6
"""If fewer than so many others are expected on the blanket, one report alone is the answer."""
_LAST = 1e-8
"""Where one report alone has less than this of its δ(0), and there is a largest loss, ε is next to it."""
_FARTHEST = 600.0
_PAST = 1e-7
_CLOSE = 1e-9
"""How far below an upper end a lower one is looked for first."""
_APART = 1e-4
"""How far below an upper end of normal noise the slope is looked at."""
_GUESSES, _ROUGH = 2, 0.7
"""Of the search for a guess of normal noise: how many steps, and how close log δ is to be; first, and then better."""
_CLOSER, _MOVED, _CLOSEST = 8, 1e-3, 1e-4
"""How many steps, where a slope is looked at, and what is enough."""
_FAR, _AWAY = 4.0, 0.5
"""A path serves if log δ was no farther off where it was made, and ε."""
_STEPS, _NEAR = 12, 0.02
"""Of the search for a guess of other noise: how many steps, and how close log δ is to be."""


@dataclass(frozen=True)
class NoiseProfile(UpperProfile):
    """The profile of n values in [0, 1], each with noise that has this likelihood ratio.

    Attributes
    ----------
    reports : int
        n.
    ratio : NoiseRatio
        Of one report.
    """

    reports: int
    ratio: NoiseRatio

    bracketed = True
    no_renyi = "the Rényi divergence of the blanket of Gaussian noise is not computed; use epsilon or delta"

    @property
    def ceiling(self) -> float:
        """The largest loss, from which on δ is zero; or infinity."""
        return self.ratio.reach

    def delta(self, epsilon: float) -> float:
        """Return δ(ε), rounded up; never more than one report alone has."""
        return self._most(epsilon, _ASKED)

    def _most(self, epsilon: float, precision: float = _COARSEST, enough: float = ENOUGH) -> float:
        """Return δ(ε), rounded up, as precisely as this at least, or as the search for ε needs it."""
        if epsilon >= self.ceiling:
            return 0.0
        alone = max(self.ratio.alone(epsilon), SMALLEST_DELTA)
        if self._hidden(epsilon):
            alone = min(alone, self._bounds(epsilon, -1, precision, enough)[1])
        return max(alone, SMALLEST_DELTA)

    def _bounds(self, epsilon: float, side: int, precision: float, enough: float = ENOUGH) -> tuple[float, float]:
        """Return bounds of δ: the lower one at ε or above it (side 1), the upper one at ε or below it (side −1)."""
        lower, upper = 0.0, math.inf
        if isinstance(self.ratio, GaussianRatio) and self.ratio.deviation < _MOST:
            lower, upper = NormalSum.of(self.ratio.deviation, self.reports, epsilon, side=side).ends(enough)
            if upper <= lower * (1 + max(_ENOUGH, enough)) or self.ratio.deviation < _LEAST:
                return lower, upper
        for most in {_COARSEST, precision}:  # so that δ(ε) is never more than what the search for ε saw
            frame = _frame(self.reports, self.ratio, epsilon, most)
            if side > 0:
                lower = max(lower, frame.lower(epsilon))
            else:
                upper = min(upper, frame.upper(epsilon))
        return lower, upper

    def delta_below(self, epsilon: float) -> float:
        """Return δ(ε), rounded down."""
        return self._least_delta(epsilon, _ASKED)

    def _least_delta(self, epsilon: float, precision: float = _COARSEST) -> float:
        """Return δ(ε), rounded down, as precisely as this at least, or as the search for ε needs it."""
        if epsilon >= self.ceiling:
            return 0.0
        least = self._unhidden(epsilon)
        if self._hidden(epsilon):
            least = max(least, self._bounds(epsilon, 1, precision)[0])
        return least if least > SMALLEST_DELTA else 0.0

    def _unhidden(self, epsilon: float) -> float:
        """Return what δ(ε) is at least: no other report is on the blanket, with probability (1 − γ)ⁿ⁻¹."""
        log_rest = (self.reports - 1) * math.log(self.ratio.rest)
        return self.ratio.alone_below(epsilon) * math.exp(log_rest - slack(64) * (self.reports + abs(log_rest)))

    def _hidden(self, epsilon: float) -> bool:
        """Tell whether anybody can be expected to hide a report."""
        if self.reports == 1 or self.reports * (1 - self.ratio.rest) < _LONELY or epsilon > _FARTHEST:
            return False
        least = _LAST * self.ratio.alone(0.0) if math.isfinite(self.ceiling) else 0.0
        return self.ratio.alone(epsilon) > max(least, SMALLEST_DELTA)

    def epsilon(self, delta: float) -> float:
        """Return ε(δ), rounded up; for δ = 0 the largest loss, or infinity."""
        if delta < SMALLEST_DELTA:
            return self.ceiling
        return _searched(self, delta)

    def bracket(self, delta: float) -> tuple[float, float]:
        """Return ε(δ) of the blanket, rounded down and up."""
        return bracketed(self.epsilon, self._least, delta)

    def _least(self, delta: float, upper: float) -> float:
        """Return ε(δ), rounded down, from ε(δ), rounded up."""
        if upper == 0:
            return 0.0
        if self._turned:
            return self._least_turned(delta, upper)
        width = _CLOSE
        while width < 1:
            point = upper * (1 - width)
            reached = self._least_delta(point)
            if reached >= delta:
                return point
            # As far as the slope says, or else ever farther.
            slope = _frame(self.reports, self.ratio, point, _COARSEST).slope if self._hidden(point) else -math.inf
            more = -1.05 * math.log(delta / reached) / (slope * upper) if reached > 0 else math.inf
            width += max(width, more) if more < 0.1 else 7 * width
        return 0.0

    def _least_turned(self, delta: float, upper: float) -> float:
        """Return ε(δ), rounded down, by the slope between two lower bounds."""
        width = _APART
        reached = self._least_delta(upper)
        while width < 1:
            point = upper * (1 - width)
            below = self._least_delta(point)
            if below >= delta:
                if reached > SMALLEST_DELTA and below > reached:
                    share = math.log(delta / reached) / math.log(below / reached)
                    closer = upper * (1 - width * min(1.0, 1.01 * share + 1e-6))
                    if closer > point and self._least_delta(closer) >= delta:
                        return closer
                return point
            width *= 5
        return 0.0

    @property
    def _turned(self) -> bool:
        """Whether δ is computed on a contour that turns off the real axis."""
        return isinstance(self.ratio, GaussianRatio) and self.ratio.deviation < _MOST

    def grid(self, mesh: Mesh) -> DeltaGrid:
        """Return lower and upper bounds of δ at knots of the grid."""
        if self._turned:
            if mesh.depth not in self._remembered:
                negligible = math.exp(-mesh.depth)
                self._remembered[mesh.depth] = remembered(partial(self._turned_brackets, negligible))
            known = self._remembered[mesh.depth]

            def ends(points: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
                lower, upper = np.zeros((2, len(points)))
                asked = points < mesh.ceiling
                lower[asked], upper[asked] = known(points[asked])
                return lower, upper

            before = tuple((tilt, _KNOTS * goal) for tilt, goal in mesh.before)
            return grid_of(ends, mesh._replace(goal=_KNOTS * mesh.goal, before=before))
        return grid_of(each(self._framed(mesh)), mesh._replace(goal=_KNOTS * mesh.goal))

    @property
    def costly(self) -> bool:
        """Whether one ε takes long."""
        return self._turned

    guessed = costly
    """Whether it takes so long that few of them say first which losses matter."""

    @cached_property
    def _remembered(self) -> dict[float, Brackets]:
        """Bounds of δ of normal noise, no ε twice, for each depth."""
        return {}

    @cached_property
    def _curve(self) -> NormalCurve:
        """Paths of normal noise that serve many ε."""
        assert isinstance(self.ratio, GaussianRatio)
        return NormalCurve(self.ratio.deviation, self.reports)

    def _turned_brackets(
        self, negligible: float, points: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return lower and upper bounds of δ of normal noise at each point; one that is negligible may be rough."""
        epsilons = points.tolist()
        lower = np.array([self._unhidden(point) for point in epsilons])
        upper = np.array([self.ratio.alone(point) for point in epsilons])
        hidden = np.flatnonzero([self._hidden(point) for point in epsilons])
        if not len(hidden):
            return np.minimum(lower, upper), np.maximum(upper, SMALLEST_DELTA)
        lows, highs = self._curve.brackets([epsilons[index] for index in hidden.tolist()], _KNOWN, negligible)
        for index, low, high in zip(hidden.tolist(), lows.tolist(), highs.tolist(), strict=True):
            least, most = low, high
            if high > max(low * (1 + _KNOT), negligible) and self._curve.deviation >= _LEAST:
                frame = _frame(self.reports, self.ratio, epsilons[index], coarse=True)
                least, most = max(low, frame.lower(epsilons[index])), min(high, frame.upper(epsilons[index]))
            lower[index], upper[index] = max(lower[index], least), min(upper[index], most)
        return np.minimum(lower, upper), np.maximum(upper, SMALLEST_DELTA)

    def _framed(self, mesh: Mesh) -> Callable[[float], tuple[float, float]]:
        """Return the function of ε that bounds δ on a lattice; neighbouring points share their nodes."""
        frames: list[NoiseFrame | JumpFrame] = []

        def ends(epsilon: float) -> tuple[float, float]:
            if epsilon >= min(self.ceiling, mesh.ceiling):
                return 0.0, 0.0
            lower, upper = self._unhidden(epsilon), self.ratio.alone(epsilon)
            if self._hidden(epsilon):
                frame = next((frame for frame in frames if frame.serves(epsilon)), None)
                if frame is None:
                    frame = _frame(self.reports, self.ratio, epsilon, coarse=True)
                    frames.append(frame)
                lower, upper = max(lower, frame.lower(epsilon)), min(upper, frame.upper(epsilon))
            return min(lower, upper), max(upper, SMALLEST_DELTA)

        return ends

    def renyi(self, orders: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return upper bounds of the Rényi divergence: those of the strong clones, where there is an ε₀."""
        if math.isinf(self.ceiling):
            return super().renyi(orders)
        return ClonePair(self.reports, self.ceiling, "strong-clones").renyi(orders)

    def alone(self, delta: float) -> float:
        """Return an ε that one report alone has at this δ."""

        def safe(epsilon: float) -> bool:
            return self.ratio.alone(epsilon) <= delta

        if safe(0.0):
            return 0.0
        unsafe, good = doubled(safe)
        return min(bisect_safe(safe, unsafe=unsafe, good=good, relative=1e-12), self.ceiling)

    def guess(self, delta: float, ceiling: float) -> tuple[float, float]:
        """Return roughly the ε at which δ(ε) = delta, and d log δ/dε there."""
        target, low, high = math.log(delta), 0.0, ceiling
        spread = Saddle.of(self.ratio, self.reports, 0.0, spare=delta * _PRECISION).spread
        point, slope = gaussian_guess(spread / self.reports, delta)
        point = min(point, 0.9 * ceiling)
        if isinstance(self.ratio, GaussianRatio) and self._turned:
            return self._guess_turned(self.ratio.deviation, target, ceiling, point, slope)
        for _ in range(_STEPS):
            log_delta, slope = self._roughly(point)
            height = log_delta - target
            low, high = (point, high) if height > 0 else (low, point)
            if abs(height) < _NEAR or high - low < 1e-6 * high:
                break
            point -= height / slope
            if not low < point < high:
                point = 0.5 * (low + high)
        return point, slope

    def _guess_turned(
        self, deviation: float, target: float, ceiling: float, point: float, slope: float
    ) -> tuple[float, float]:
        """Return about the ε at which log δ is the target, and d log δ/dε there, from this point on."""
        low, high = 0.0, ceiling
        before, last = point, 0.0

        def moved(height: float) -> float:
            nonlocal low, high
            low, high = (point, high) if height > 0 else (low, point)
            following = point - height / slope
            if not low < following < high:
                following = math.sqrt(low * high) if high > 4 * low > 0 else 0.5 * (low + high)
            return following

        for step in range(_GUESSES):
            height = NormalSum.of(deviation, self.reports, point).roughly() - target
            if step and point != before:
                slope = min((height - last) / (point - before), -1e-3)
            before, last, point = point, height, moved(height)
            if abs(height) < _ROUGH:
                break
        # Then closer, with the nodes of one path, or of another one if the first was far off.
        low, high, far, made = 0.0, ceiling, math.inf, 0.0
        for _ in range(_CLOSER):
            if fresh := far > _FAR or abs(point - made) > _AWAY:
                sketch, made = NormalSketch(NormalSum.of(deviation, self.reports, point)), point
                before, last = point * (1 - _MOVED), sketch.log_delta(point * (1 - _MOVED)) - target
            height = sketch.log_delta(point) - target
            if not math.isfinite(height + last):
                break
            far = abs(height) if fresh else far
            if point != before:
                slope = min((height - last) / (point - before), -1e-3)
            before, last, point = point, height, moved(height)
            if abs(height) < _CLOSEST * -slope * point:
                break
        return point, slope

    def _roughly(self, epsilon: float) -> tuple[float, float]:
        """Return roughly log δ(ε) and its slope."""
        if math.isinf(self.ceiling):
            outline, slope = Outline.sloped(self.ratio, self.reports, epsilon)
            return outline.log_delta, slope
        saddle = Saddle.of(self.ratio, self.reports, epsilon, spare=0.0)
        return saddle.log_delta, saddle.slope


def _searched(profile: NoiseProfile, delta: float) -> float:
    ceiling = profile.alone(delta)
    if ceiling == 0 or profile.reports == 1 or profile.reports * (1 - profile.ratio.rest) < _LONELY:
        return ceiling
    start, slope = profile.guess(delta, ceiling)
    # Nothing happens at a ceiling that is only what one report has: next to it δ is as smooth as elsewhere.
    last = ceiling if math.isfinite(profile.ceiling) else 2 * ceiling
    past = _PAST if math.isfinite(profile.ceiling) else 10 * _PAST
    enough = min(max(_PRECISION * -start * slope, ENOUGH), _COARSEST)

    def value(epsilon: float) -> float:
        return profile._most(epsilon, enough=enough)

    start = min(start * (1 + past), ceiling)
    return min(smallest_safe(value, delta, last, start, slope, past=past), ceiling)


@lru_cache(maxsize=8)
def _frame(
    reports: int, ratio: NoiseRatio, epsilon: float, most: float = _COARSEST, *, coarse: bool = False
) -> NoiseFrame | JumpFrame:
    """Return positions, tilts and nodes for δ(ε), which change it by no more than `most`; or for a grid from ε on."""
    if math.isinf(ratio.reach):
        outline, slope = Outline.sloped(ratio, reports, epsilon)
        precision = _precision(epsilon, slope, most, coarse=coarse)
        return JumpFrame(ratio, reports, epsilon, outline=outline, slope=slope, precision=precision)
    saddle = Saddle.of(ratio, reports, epsilon, spare=0.0)
    precision = _precision(epsilon, saddle.slope, most, coarse=coarse)
    if coarse:  # next to one, δ says much by how much it is less
        precision *= min(1.0, max(saddle.log_delta**2, _ALMOST))
    return NoiseFrame(ratio, reports, epsilon, saddle, precision)


def _precision(epsilon: float, slope: float, most: float, *, coarse: bool) -> float:
    """Return what discretising may change of δ."""
    steepness = -epsilon * slope if epsilon else 1.0  # by how much δ changes more than ε
    precision = min(max(_PRECISION * steepness, _FINEST), most)
    return max(_GRIDDED, 10 * precision) if coarse else precision
