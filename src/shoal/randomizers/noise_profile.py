"""The privacy blanket of noise on a number in an interval: δ(ε) and ε(δ) of n shuffled reports, from both sides."""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from shoal.checks import SMALLEST_DELTA
from shoal.losses.delta_grid import DeltaGrid, Mesh, each, grid_of
from shoal.losses.gaussian_blanket import gaussian_blanket
from shoal.losses.jump_frame import JumpFrame, Outline
from shoal.losses.noise_delta import NoiseFrame, Saddle
from shoal.losses.noise_ratio import GaussianRatio, NoiseRatio
from shoal.pairs import ClonePair, gaussian_guess
from shoal.privacy_profile import UpperProfile
from shoal.rounding import slack
from shoal.searches import bisect_safe, bracketed, doubled, smallest_safe

__all__ = ["NoiseProfile"]

_PRECISION, _FINEST, _COARSEST = 1e-5, 3e-7, 2e-3
"""What discretising may change of ε, relatively; and of δ, at least and at most."""
_GRIDDED = 1e-4
"""On a grid, what discretising may change of δ; and how far apart points are, in deviations of the loss."""
_TWICE, _LEAST = 2.0, 0.2
"""An upper bound so many times what was expected is not good; another is tried where it is known to be fast enough."""
_LONELY = 1e-6
"""If fewer than so many others are expected on the blanket, one report alone is the answer."""
_LAST = 1e-8
"""Where one report alone has less than this of its δ(0), and there is a largest loss, ε is next to it."""
_FARTHEST = 600.0
_PAST = 1e-7
_CLOSE = 1e-9
"""How far below an upper end a lower one is looked for first."""
_STEPS, _NEAR = 12, 0.02
"""Of the search for a guess: how many steps, and how close log δ is to be."""


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

    no_renyi = "the Rényi divergence of the blanket of Gaussian noise is not computed; use epsilon or delta"

    @property
    def ceiling(self) -> float:
        """The largest loss, from which on δ is zero; or infinity."""
        return self.ratio.reach

    def delta(self, epsilon: float) -> float:
        """Return δ(ε), rounded up; never more than one report alone has."""
        if epsilon >= self.ceiling:
            return 0.0
        alone = max(self.ratio.alone(epsilon), SMALLEST_DELTA)
        if self._hidden(epsilon):
            alone = min(alone, self._upper(epsilon, _frame(self.reports, self.ratio, epsilon)))
        return max(alone, SMALLEST_DELTA)

    def _upper(self, epsilon: float, frame: NoiseFrame | JumpFrame) -> float:
        """Return an upper bound from a frame; if that is far above what it should be, the lesser of another one."""
        upper = frame.upper(epsilon)
        expected = isinstance(frame, NoiseFrame) or upper <= _TWICE * frame.expected
        if expected or not isinstance(self.ratio, GaussianRatio) or self.ratio.deviation < _LEAST:
            return upper
        if self.reports * (1 - self.ratio.rest) < 1:
            return upper
        other = gaussian_blanket(self.ratio.deviation, self.reports, epsilon, fineness=0.5)
        return min(upper, other) if other > 0 else upper

    def delta_below(self, epsilon: float) -> float:
        """Return δ(ε), rounded down."""
        if epsilon >= self.ceiling:
            return 0.0
        least = self._unhidden(epsilon)
        if self._hidden(epsilon):
            least = max(least, _frame(self.reports, self.ratio, epsilon).lower(epsilon))
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
        width = _CLOSE
        while width < 1:
            point = upper * (1 - width)
            reached = self.delta_below(point)
            if reached >= delta:
                return point
            # As far as the slope says, or else ever farther.
            slope = _frame(self.reports, self.ratio, point).slope if self._hidden(point) else -math.inf
            more = -1.05 * math.log(delta / reached) / (slope * upper) if reached > 0 else math.inf
            width += max(width, more) if more < 0.1 else 7 * width
        return 0.0

    def grid(self, mesh: Mesh) -> DeltaGrid:
        """Return lower and upper bounds of δ at every point of the grid; neighbouring points share their nodes."""
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

        return grid_of(each(ends), mesh)

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
        point = min(gaussian_guess(spread / self.reports, delta)[0], 0.9 * ceiling)
        slope = -1.0
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
    return smallest_safe(profile.delta, delta, ceiling, min(start, ceiling), slope, past=_PAST)


@lru_cache(maxsize=8)
def _frame(reports: int, ratio: NoiseRatio, epsilon: float, *, coarse: bool = False) -> NoiseFrame | JumpFrame:
    """Return positions, tilts and nodes for δ(ε), or for δ on a grid from ε on."""
    if math.isinf(ratio.reach):
        outline, slope = Outline.sloped(ratio, reports, epsilon)
        precision = _precision(epsilon, slope, coarse=coarse)
        return JumpFrame(ratio, reports, epsilon, outline=outline, slope=slope, precision=precision)
    saddle = Saddle.of(ratio, reports, epsilon, spare=0.0)
    return NoiseFrame(ratio, reports, epsilon, saddle, _precision(epsilon, saddle.slope, coarse=coarse))


def _precision(epsilon: float, slope: float, *, coarse: bool) -> float:
    """Return what discretising may change of δ."""
    steepness = -epsilon * slope if epsilon else 1.0  # by how much δ changes more than ε
    precision = min(max(_PRECISION * steepness, _FINEST), _COARSEST)
    return max(_GRIDDED, 10 * precision) if coarse else precision
