"""One step of Poisson sampling: a Gaussian sum that one example has joined by a coin of its own."""

import math
from dataclasses import dataclass

from shoal.checks import SMALLEST_DELTA
from shoal.losses.delta_grid import DeltaGrid, Mesh, each, grid_of
from shoal.losses.noise_ratio import gaussian_alone
from shoal.pairs import gaussian_guess
from shoal.privacy_profile import UpperProfile
from shoal.rounding import slack
from shoal.searches import smallest_safe

__all__ = ["PoissonStep"]

_FARTHEST = 600.0


@dataclass(frozen=True)
class PoissonStep(UpperProfile):
    """The profile of one step of Poisson sampling (docs/theory/samplers.md, section 4), in both directions.

    Attributes
    ----------
    rate : float
        p, the probability that an example joins the step.
    separation : float
        a, how far it moves the sum, in deviations of the noise.
    replaced : bool
        Whether the example is replaced; else it is added, removed or zeroed.
    """

    rate: float
    separation: float
    replaced: bool

    no_bracket = "a step of Poisson sampling is known from above only; ask for epsilon"
    no_renyi = "a step of Poisson sampling is known by δ(ε) only; ask for epsilon"

    def delta(self, epsilon: float) -> float:
        """Return δ(ε), rounded up; the larger of both directions."""
        if epsilon > _FARTHEST:
            return max(gaussian_alone(1 / (2 * self.separation), epsilon), SMALLEST_DELTA)
        if self.replaced:
            return max(self._replaced(epsilon), SMALLEST_DELTA)
        return max(self.removed(epsilon), self.added(epsilon), SMALLEST_DELTA)

    def removed(self, epsilon: float) -> float:
        """Return E[(1 − p + pX − λ)₊] = p·E[(X − κ)₊], κ = 1 + (λ − 1)/p, rounded up."""
        ratio = math.expm1(epsilon) / self.rate * (1 - slack(8))
        return self.rate * gaussian_alone(1 / self.separation, math.log1p(ratio) * (1 - slack(4))) * (1 + slack(8))

    def added(self, epsilon: float) -> float:
        """Return E[(1 − λ(1 − p + pX))₊] = c·E[(1 − μX)₊], c = 1 − λ(1 − p), μ = λp/c, rounded up."""
        less, joined = math.expm1(epsilon), math.exp(epsilon) * self.rate
        left = joined - less + slack(8) * (joined + less)
        if left <= 0:
            return 0.0
        log_ratio = max(math.log(joined / left) - slack(16), 0.0)
        return min(left, left * gaussian_alone(1 / self.separation, log_ratio) * (1 + slack(8)))

    def _replaced(self, epsilon: float) -> float:
        """Return E[((1 − p)(1 − λ) + p(X − λX′))₊], rounded up."""
        a, growth = self.separation, math.exp(epsilon)
        # e^{aZ} = y, where y − λ/y = (1 − p)(λ − 1)/p·exp(a²/2): what is summed up is positive beyond.
        middle = (1 - self.rate) * math.expm1(epsilon) / self.rate
        lifted = math.log(middle) + a * a / 2 - math.log(2) if middle > 0 else -math.inf
        point = (
            (lifted + math.log1p(math.sqrt(1 + math.exp(epsilon - 2 * lifted)))) / a
            if lifted > epsilon / 2
            else (math.asinh(math.exp(lifted - epsilon / 2)) + epsilon / 2) / a
        )
        first, base, second = (0.5 * math.erfc((point + shift) / math.sqrt(2)) for shift in (-a, 0.0, a))
        value = first - middle * base - growth * second
        wrong = slack(128) * (1 + epsilon + (abs(point) + a) ** 2)
        return self.rate * (max(value, 0.0) + wrong * first) * (1 + slack(8))

    def epsilon(self, delta: float) -> float:
        """Return ε(δ), rounded up."""
        if delta < SMALLEST_DELTA or self.delta(_FARTHEST) > delta:
            return math.inf
        start, slope = self.guess(delta)
        return smallest_safe(self.delta, delta, _FARTHEST, start, slope, past=1e-9)

    def guess(self, delta: float) -> tuple[float, float]:
        """Return roughly the ε at which δ(ε) = delta, and d log δ/dε there."""
        return gaussian_guess(self.rate * math.sqrt(math.expm1(min(self.separation**2, 600.0))), delta)

    def grid(self, mesh: Mesh) -> DeltaGrid:
        """Return upper bounds of δ at points of the grid; a lower one is not known."""
        return grid_of(each(lambda epsilon: (0.0, self.delta(epsilon))), mesh)
