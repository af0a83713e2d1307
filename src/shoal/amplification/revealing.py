"""What (ε₀, δ₀)-DP randomizers reach: with probability δ₀ a person's value is revealed, else a pure randomizer runs.

δ(ε) is then at least δ₀ + (1 − δ₀) times what pure randomizers reach (docs/theory/approximate.md, section 6).
"""

from dataclasses import dataclass

from shoal.lower_limit import LowerProfile
from shoal.rounding import slack

__all__ = ["RevealingProfile"]

_DOWN = 1 - slack(8)
_UP = 1 + slack(8)


@dataclass(frozen=True)
class RevealingProfile:
    """What is reached if a pure part, whose own lower limit is `pure`, reveals all with probability `local_delta`."""

    pure: LowerProfile
    local_delta: float

    def delta(self, epsilon: float) -> float:
        """Return δ(ε), rounded down."""
        return max(self.local_delta, (self.local_delta + (1 - self.local_delta) * self.pure.delta(epsilon)) * _DOWN)

    def epsilon(self, delta: float) -> float:
        """Return ε(δ), rounded down; below δ₀, where no ε suffices, what the pure part has at δ = 0."""
        if delta <= self.local_delta:
            return self.pure.epsilon(0.0)
        # One part of δ₀ is for rounding δ − δ₀, which cancels.
        asked = ((delta - self.local_delta) + slack(8) * delta) / (1 - self.local_delta) * _UP
        return self.pure.epsilon(min(asked, 1.0))
