"""Claims about all randomizers with certain numbers: clones, strong clones, two ratios, and decompositions.

W has two or three values in closed form (docs/theory/certificates.md, section 2).
"""

from dataclasses import dataclass

from shoal.assumptions import ADAPTIVE, APPROXIMATE, DECOMPOSES, PURE, RATIOS, Assumption
from shoal.errors import ParameterError
from shoal.proofs.balls import Ball, Summand, ball, precision, zero
from shoal.proofs.claim import RoundClaim, choice, count, double
from shoal.statements import CLONES, DECOMPOSITION, SHARPER, STRONG, TWO_RATIOS

__all__ = ["CloneClaim", "DecompositionClaim", "RatioClaim"]

_FAMILIES = ("clones", "strong-clones")
_LARGEST = 1.7e308  # the largest ε₀: its exponential is a ball, and need not be a double
_ROUNDING = 1e-12  # what rounding p and q may add to the largest possible ε₀: k-ary randomized response is at the limit


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

    sentence = (
        "{0.reports:,} shuffled reports of any randomizer with local_epsilon={0.local_epsilon!r}, "
        "local_delta={0.local_delta!r} ({0.family})"
    )

    def __post_init__(self) -> None:
        """Check the fields."""
        count(reports=self.reports)
        double(0.0, _LARGEST, local_epsilon=self.local_epsilon)
        double(0.0, 1.0, local_delta=self.local_delta)
        choice(_FAMILIES, family=self.family)

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

    sentence = (
        "{0.reports:,} shuffled reports with two ratios, local_epsilon={0.local_epsilon!r}, log_ratio={0.log_ratio!r}"
    )
    theorem = TWO_RATIOS
    assumptions = (RATIOS, *ADAPTIVE)

    def __post_init__(self) -> None:
        """Check that q is at least p."""
        count(reports=self.reports)
        double(0.0, _LARGEST, local_epsilon=self.local_epsilon)
        double(self.local_epsilon, _LARGEST, log_ratio=self.log_ratio)

    def summands(self, growth: Ball) -> list[Summand]:
        """Return W of the clones."""
        local, ratio = ball(self.local_epsilon).exp(), ball(self.log_ratio).exp()
        return [clone_summand(local, growth, 2 * local / (ratio * (local + 1)))]


@dataclass(frozen=True)
class DecompositionClaim(RoundClaim, name="decomposition"):
    """The pair of Theorem 4.1: W is q/p, −e^ε·q/p or −(e^ε − 1)(1 − q)/p, each with probability p."""

    reports: int
    blanket_probability: float
    own_probability: float
    local_epsilon: float

    sentence = (
        "{0.reports:,} shuffled reports of a randomizer that decomposes with p={0.blanket_probability!r}, "
        "q={0.own_probability!r}, local_epsilon={0.local_epsilon!r}"
    )
    theorem = DECOMPOSITION
    assumptions = (DECOMPOSES, PURE, *ADAPTIVE)

    def __post_init__(self) -> None:
        """Check that a randomizer can have these numbers (docs/theory/closed-forms.md, section 6)."""
        count(reports=self.reports)
        blanket = double(0.0, 1 / 3, blanket_probability=self.blanket_probability)
        own = double(0.0, 1.0, own_probability=self.own_probability)
        if not (blanket > 0 and own > 0):
            raise ParameterError(f"both probabilities must be greater than 0, got {blanket!r} and {own!r}")
        double(0.0, 700.0, local_epsilon=self.local_epsilon)
        with precision(256):
            both = 2 / ball(own) if own > 2 / 3 else 1 / (1 - ball(own))
            largest = (1 + ball(own) * (1 / ball(blanket) - both)).log() * (1 + _ROUNDING)
            possible = ball(self.local_epsilon) <= largest
        if not possible:
            raise ParameterError(
                f"no randomizer has local_epsilon={self.local_epsilon!r} with these probabilities, {blanket!r} and "
                f"{own!r}: they leave at most {float(largest):.6g}"
            )

    def summands(self, growth: Ball) -> list[Summand]:
        """Return W."""
        probability, own = ball(self.blanket_probability), ball(self.own_probability)
        values = own / probability, -growth * own / probability, -(growth - 1) * (1 - own) / probability
        return [Summand(values, (probability,) * 3, zero())]
