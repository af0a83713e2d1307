"""One bit about a number in an interval: rounded at random to one of the two ends, then randomized response."""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from shoal.checks import check_fields, positive, store
from shoal.errors import ParameterError
from shoal.estimation.interval import least_share
from shoal.mechanisms.coins import WHOLE, logarithm_above, share_below
from shoal.mechanisms.integer_noise import Grid, Noise, binary_noise
from shoal.mechanisms.mean import MeanMechanism
from shoal.mechanisms.randomized_response import RandomizedResponse
from shoal.pairs.decomposition import Decomposition
from shoal.pairs.integer_likelihoods import BitRows
from shoal.pairs.likelihoods import Likelihoods
from shoal.pairs.registry import register
from shoal.proofs.blanket_claim import SupportClaim


@register("one-bit-mean", "one bit: the lower end of the interval, or the upper one")
@dataclass(frozen=True, kw_only=True, repr=False)
class OneBitMean(MeanMechanism):
    """The mechanism that reports one bit: one of the two ends, the nearer one the more often.

    The ends are the only inputs of the randomized response, and two values can be told apart no better than they can
    (docs/theory/numbers.md).

    Parameters
    ----------
    local_epsilon : float
        ε₀ > 0. What is reported afterwards is the ε₀ of the integers that the coins are compared with, rounded up to a
        double: at most what was asked for.
    lower, upper : float
        The ends of the interval.

    Examples
    --------
    >>> from shoal.mechanisms.coins import Simulation
    >>> ages = OneBitMean(local_epsilon=2, lower=0, upper=120)
    >>> reports = ages.randomize([30.0, 40.0, 50.0] * 100_000, simulation=Simulation(seed=1))
    >>> estimate = ages.estimate(ages.aggregate(reports))
    >>> ages.bits_per_report, round(estimate.mean, 2), round(estimate.standard_error, 2)
    (1, 40.01, 0.14)
    """

    local_epsilon: float

    def __post_init__(self) -> None:
        """Check the arguments."""
        super().__post_init__()
        check_fields(self, positive, "local_epsilon")
        if self.truth:  # an ε₀ too small for any coin is kept as it is, and `randomize` refuses
            exact = logarithm_above(1 + Fraction(2 * self.truth, WHOLE - self.truth))
            store(self, local_epsilon=min(exact, self.local_epsilon))

    @cached_property
    def truth(self) -> int:
        """How many of 2⁶⁴ coins keep the rounded end; with the others, both ends are equally likely."""
        return share_below(self.local_epsilon, Fraction(1, 2))

    @property
    def response(self) -> RandomizedResponse:
        """The randomized response over the two ends."""
        return RandomizedResponse(categories=2, local_epsilon=self.local_epsilon)

    @property
    def grid(self) -> Grid:
        """The two ends."""
        return Grid(1, 1, 0)

    @property
    def noise(self) -> Noise:
        """The integers with which the coins are compared."""
        if not self.truth:
            raise ParameterError(
                f"local_epsilon={self.local_epsilon:g} is too small for 64-bit coins; use a larger one"
            )
        return binary_noise(self.truth)

    def _limits(self, total: int, reports: int, position: float, error: float, level: float) -> tuple[float, float]:
        """Return the interval of Clopper and Pearson: whatever the values, their bits are independent."""
        least = least_share(total, reports, level)
        most = 1 - least_share(reports - total, reports, level)
        centre = float(self.noise.centre)
        slope = float(self.noise.slope)
        return (least - centre) / slope, (most - centre) / slope

    @property
    def blanket_row(self) -> tuple[str, int]:
        """What is rounded to one of the ends goes through binary randomized response."""
        return self.response.blanket_row

    @property
    def decomposition(self) -> Decomposition:
        """That of binary randomized response."""
        return self.response.decomposition

    @property
    def bit(self) -> BitRows | None:
        """A report is an end of the interval, by binary randomized response of what was rounded to one."""
        return self.response.bit

    @property
    def blanket(self) -> tuple[Likelihoods, ...]:
        """What one report tells about the two ends, relative to what the reports of all values have in common."""
        return self.response.blanket

    def claim(self, reports: int) -> SupportClaim:
        """Return what a certificate of n reports claims."""
        return SupportClaim(reports, self.local_epsilon, "one-bit-mean", {})

    @property
    def homogeneous(self) -> tuple[Likelihoods, ...]:
        """What one report tells about the two ends, where all others hold one of them."""
        return self.response.homogeneous
