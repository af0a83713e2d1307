"""The privacy losses of several rounds, added up from above and from below."""

import math
from collections.abc import Iterable
from typing import NamedTuple

from shoal.numerics.convolution import Convolution, TiltedSum, between, crossing
from shoal.numerics.delta_grid import DeltaGrid
from shoal.numerics.privacy_loss import dominated, dominating
from shoal.rounding import slack

__all__ = ["SummedLosses"]

_MOVED = 0.02
"""How far from ε, relatively, another δ is looked at."""


class SummedLosses(NamedTuple):
    """A sum of losses that is at least the true one, and one that is at most that."""

    above: Convolution
    below: Convolution

    @classmethod
    def of(cls, rounds: Iterable[tuple[DeltaGrid, int]]) -> "SummedLosses":
        """Return the sums for rounds with these bounds of δ(ε), each with how often it is repeated."""
        uppers, lowers = [], []
        for grid, times in rounds:
            uppers.append((dominating(grid), times))
            lowers.append((dominated(grid), times))
        return cls(Convolution(uppers, from_above=True), Convolution(lowers))

    def delta(self, epsilon: float) -> float:
        """Return δ(ε), rounded up; it may be more than 1."""
        while True:
            tilted = self.above.aimed_at_epsilon(epsilon)
            if self.above.followed(tilted, _steepness(tilted, epsilon), epsilon):
                return between(tilted.upper, epsilon, tilted.step)

    def epsilon(self, delta: float) -> float:
        """Return ε(δ), rounded up."""
        while True:
            tilted, guess = self.above.aimed_at_delta(delta)
            epsilon = crossing(tilted.upper, delta, guess, tilted.step, tilt=tilted.tilt)
            if not math.isfinite(epsilon) or self.above.followed(tilted, _steepness(tilted, epsilon), epsilon):
                return epsilon * (1 + slack(8))

    def steepness(self, epsilon: float, delta: float) -> float:
        """Return about −d log δ/dε next to ε = ε(δ), from above.

        That is the tilt that counts, where rare large losses let the moments say something else.
        """
        return _steepness(self.above.aimed_at_delta(delta)[0], epsilon)

    def least_epsilon(self, delta: float) -> float:
        """Return ε(δ), rounded down; zero where no lower bound of δ is known."""
        if self.below.greatest == 0:
            return 0.0
        tilted, guess = self.below.aimed_at_delta(delta)
        return crossing(tilted.lower, delta, guess, self.below.step, tilt=tilted.tilt) * (1 - slack(8))


def _steepness(tilted: TiltedSum, epsilon: float) -> float:
    index = max(0, math.floor(epsilon / tilted.step))
    move = math.ceil(_MOVED * (index + 1))
    near, far = tilted.upper(index), tilted.upper(index + move)
    return math.log(near / far) / (move * tilted.step) if near > far > 0 else tilted.tilt
