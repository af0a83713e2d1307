"""Claims about any randomizer with this ε₀: the clones, the strong clones, and those with two ratios."""

from dataclasses import dataclass

from shoal.assumptions import ADAPTIVE, APPROXIMATE, PURE, RATIOS, Assumption
from shoal.errors import ParameterError
from shoal.proofs.balls import Ball, Summand, ball, zero
from shoal.proofs.claim import RoundClaim, count, double
from shoal.proofs.words import CLONES, SHARPER, STRONG, TWO_RATIOS

__all__ = ["CloneClaim", "RatioClaim"]

_FAMILIES = ("clones", "strong-clones")
_LARGEST = 1.7e308


def clone_summand(local: Ball, growth: Ball, probability: Ball) -> Summand:
    """Return W of clones of this probability, of which half are of each kind: δ = E[(ΣW)₊]/n by (ID)."""
    # W = c·β and c·(β − 1) for c = 2(1 + e^ε)(E − 1)/((E + 1)p) and β = (E − e^ε)/((E − 1)(1 + e^ε)).
    factor = 2 / ((local + 1) * probability)
    values = factor * (local - growth), factor * (1 - local * growth)
    return Summand(values, (probability / 2, probability / 2), zero())


@dataclass(frozen=True)
class CloneClaim(RoundClaim, name="clones"):
    """The pair of n reports from (ε₀, δ₀)-DP randomizers, by the paper's theorem or by Theorem S."""

    reports: int
    local_epsilon: float
    local_delta: float
    family: str

    def __post_init__(self) -> None:
        """Check the fields."""
        count(reports=self.reports)
        double(0.0, _LARGEST, local_epsilon=self.local_epsilon)
        double(0.0, 1.0, local_delta=self.local_delta)
        if self.family not in _FAMILIES:
            raise ParameterError(f"family must be one of {', '.join(_FAMILIES)}; got {self.family!r:.40}")

    @property
    def theorem(self) -> str:
        """Where the pair is proved."""
        if self.family == "clones":
            return f"{CLONES[0]}; {CLONES[1]}" if self.local_delta else CLONES[0]
        return f"{STRONG}; {SHARPER}" if self.local_delta else STRONG

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        """What has to be true."""
        return (APPROXIMATE if self.local_delta else PURE, *ADAPTIVE)

    @property
    def subject(self) -> str:
        """The pair with its numbers."""
        local = f"local_epsilon={self.local_epsilon!r}, local_delta={self.local_delta!r}"
        return f"{self.reports:,} shuffled reports of any randomizer with {local} ({self.family})"

    @property
    def floor(self) -> float:
        """δ₀."""
        return self.local_delta

    def summands(self, growth: Ball) -> list[Summand]:
        """Return W of the clones."""
        local = ball(self.local_epsilon).exp()
        probability = 1 / local if self.family == "clones" else 2 / (local + 1)
        return [clone_summand(local, growth, probability)]

    def charge(self, growth: Ball) -> Ball:
        """Return what δ₀ costs: the paper's theorem for the clones, the sharper one for the strong clones."""
        if not self.local_delta:
            return zero()
        local = ball(self.local_epsilon).exp()
        if self.family == "clones":
            factor = (growth + 1) * (1 + 1 / (2 * local)) * self.reports
        else:
            factor = (self.reports - 1) * (2 / local) * (1 + growth) + 1
        return factor * ball(self.local_delta)


@dataclass(frozen=True)
class RatioClaim(RoundClaim, name="two-ratios"):
    """The strong clones with p = e^ε₀ between the victim's two reports, and q = e^log_ratio to those of others."""

    reports: int
    local_epsilon: float
    log_ratio: float

    def __post_init__(self) -> None:
        """Check that q is at least p."""
        count(reports=self.reports)
        double(0.0, _LARGEST, local_epsilon=self.local_epsilon)
        double(self.local_epsilon, _LARGEST, log_ratio=self.log_ratio)

    @property
    def theorem(self) -> str:
        """Where the pair is proved."""
        return TWO_RATIOS

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        """What has to be true."""
        return (
            RATIOS,
            *ADAPTIVE,
        )

    @property
    def subject(self) -> str:
        """The pair with its numbers."""
        ratios = f"local_epsilon={self.local_epsilon!r}, log_ratio={self.log_ratio!r}"
        return f"{self.reports:,} shuffled reports with two ratios, {ratios}"

    def summands(self, growth: Ball) -> list[Summand]:
        """Return W of the clones."""
        local, ratio = ball(self.local_epsilon).exp(), ball(self.log_ratio).exp()
        return [clone_summand(local, growth, 2 * local / (ratio * (local + 1)))]
