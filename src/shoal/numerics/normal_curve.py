"""δ(ε) of n shuffled reports with normal noise at many ε, from both sides: neighbouring ε share a path and its rays."""

import math
from bisect import bisect_right

import numpy as np
from numpy.typing import NDArray

from shoal.numerics.noise_contour import Integrals, NormalSum, brackets
from shoal.numerics.normal_frame import NormalFrame
from shoal.numerics.normal_rays import normal_rays
from shoal.numerics.normal_tilt import Effort

__all__ = ["NormalCurve"]

_EFFORTS = (Effort(1.0, 6, 8, 2e-5, upright=True), Effort(1.0, 8, 12, 1e-6))
"""What to try first, in this order."""
_WIDE, _PART, _WIDEST = 2.4, 0.4, 1.0
"""How wide an interval of ε is that has one path: in deviations of the loss, or as a part of ε; and at most."""
_TOGETHER = 12
"""How many ε are evaluated at once."""

Array = NDArray[np.float64]


class NormalCurve:
    """The curve of normal noise.

    Parameters
    ----------
    deviation : float
        σ.
    reports : int
        n.
    """

    def __init__(self, deviation: float, reports: int) -> None:
        self.deviation, self.reports = deviation, reports
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            real = normal_rays(deviation).real
        # The loss of all but about one of n reports.
        usual = min(max(int(np.searchsorted(-reports * real.beyond, -1.0)), 1), len(real.edges) - 1)
        self.spread = math.sqrt(2 * float(real.scaled[usual, 2]) / reports) * float(real.reach[usual])
        self._starts = [0.0]
        self._frames: dict[tuple[int, Effort], NormalFrame] = {}

    def brackets(self, epsilons: list[float], enough: float, negligible: float) -> tuple[Array, Array]:
        """Return lower and upper bounds of δ at ascending ε, so close if possible, or with a negligible upper one."""
        sums = [NormalSum.of(self.deviation, self.reports, epsilon) for epsilon in epsilons]
        lower, upper = np.zeros(len(sums)), np.full(len(sums), math.inf)
        left = np.arange(len(sums))
        for effort in (*_EFFORTS, None):
            for first in range(0, len(left), _TOGETHER):
                some = left[first : first + _TOGETHER].tolist()
                chosen = [sums[index] for index in some]
                if effort is None:
                    lows, highs = brackets(chosen, enough)
                else:
                    with np.errstate(over="ignore", under="ignore", invalid="ignore", divide="ignore"):
                        lows, highs = Integrals(
                            chosen, [self._frame(epsilons[index], effort) for index in some]
                        ).bounds()
                lower[some], upper[some] = np.maximum(lower[some], lows), np.minimum(upper[some], highs)
            upper = np.minimum.accumulate(upper)  # δ does not grow
            left = np.flatnonzero((upper > lower * (1 + enough)) & (upper > negligible))
        return lower, upper

    def _frame(self, epsilon: float, effort: Effort) -> NormalFrame:
        """Return the frame that serves ε; which one that is does not depend on what was asked before."""
        while self._starts[-1] <= epsilon:
            last = self._starts[-1]
            self._starts.append(last + min(max(_WIDE * self.spread, _PART * last), _WIDEST))
        index = bisect_right(self._starts, epsilon) - 1
        if (index, effort) not in self._frames:
            low, high = self._starts[index : index + 2]
            middle, *ends = (
                NormalSum.of(self.deviation, self.reports, each) for each in (0.5 * (low + high), low, high)
            )
            self._frames[index, effort] = NormalFrame(middle, tuple(ends), effort)
        return self._frames[index, effort]
