"""Gaussian noise on a number in an interval: no pure ε₀ at all, and shuffling amplifies it nevertheless."""

import math
from dataclasses import dataclass
from typing import ClassVar

from shoal.checks import positive
from shoal.errors import ParameterError
from shoal.mechanisms.integer_noise import Grid, Noise, gaussian_grid, gaussian_noise
from shoal.mechanisms.mean import NoisyMean
from shoal.numerics.noise import GaussianRatio
from shoal.pairs.likelihoods import Likelihoods
from shoal.pairs.noise_profile import NoiseProfile, Pools
from shoal.pairs.registry import register
from shoal.proofs.blanket_claim import GaussianClaim

_LEAST, _MOST = 0.01, 1e6
"""With less noise, nothing is hidden; with more, nothing is left."""
_REACH = 3.5
_POOLS = 32


@register("gaussian", "a number with normal noise, rounded to a grid")
@dataclass(frozen=True, kw_only=True, repr=False)
class Gaussian(NoisyMean):
    """The mechanism that adds normal noise to a number in an interval.

    What is reported is a cell of a grid. That is normal noise on [0, 1] with values rounded before and reports after
    it, and what holds for the noise holds for the mechanism (docs/theory/numbers.md). Of all pairs of values, the two
    ends are the easiest to tell apart, and their distributions have the blanket ω = min(R₀, R₁) (Theorem B,
    docs/theory/blanket.md).

    Parameters
    ----------
    sigma : float
        σ > 0, the standard deviation of the noise, in units of the values.
    lower, upper : float
        The ends of the interval.

    Examples
    --------
    >>> noise = Gaussian(sigma=1)
    >>> round(noise.blanket_probability, 4), noise.local_epsilon
    (0.6171, inf)
    >>> Gaussian(sigma=60, lower=0, upper=120).relative_sigma
    0.5
    """

    blanket: ClassVar[tuple[Likelihoods, ...]] = ()
    """Its blanket has a density, and `profile` is computed from it."""

    sigma: float

    def __post_init__(self) -> None:
        """Check the arguments."""
        super().__post_init__()
        object.__setattr__(self, "sigma", positive(sigma=self.sigma))
        if not _LEAST <= self.relative_sigma <= _MOST:
            least, most = _LEAST * self.length, _MOST * self.length
            raise ParameterError(f"sigma must be between {least:g} and {most:g}, got {self.sigma!r}", "sigma")

    @property
    def relative_sigma(self) -> float:
        """The deviation in units of the interval, which is all that matters for privacy."""
        return self.sigma / self.length

    @property
    def grid(self) -> Grid:
        """The points to which numbers are rounded, and the cells in which they are reported."""
        return gaussian_grid(self.relative_sigma)

    @property
    def noise(self) -> Noise:
        """The integers with which the coins are compared; computed when first used."""
        return gaussian_noise(self.relative_sigma)

    @property
    def local_epsilon(self) -> float:
        """Infinite: no ε₀ holds with δ₀ = 0."""
        return math.inf

    def profile(self, reports: int) -> NoiseProfile:
        """Return the privacy profile of n such reports, shuffled."""
        return NoiseProfile(reports, GaussianRatio(self.relative_sigma))

    def claim(self, reports: int) -> GaussianClaim:
        """Return what a certificate of n reports claims."""
        return GaussianClaim(reports, self.relative_sigma, 2, 1.0)

    def _reached(self) -> tuple[Pools, ...]:
        """Return what the reports look like if all others hold the lower end, the upper one, or the middle.

        Cells are put together into pools, which loses a little.
        """
        width = self.relative_sigma
        wanted = _POOLS * (1 / width + 2 * _REACH) / (2 + 4 * _REACH)
        pools = 2 * math.ceil(min(wanted, 4 * _POOLS))
        beyond = math.ceil(_REACH * width * self.grid.intervals / self.grid.width)
        scale = width * self.grid.intervals * math.sqrt(2)

        def between(low: float, high: float) -> float:
            if low == 0:
                return 0.5 * math.erf(high / scale)
            return 0.5 * (math.erfc(low / scale) - math.erfc(high / scale))

        return self._pooled(between, beyond, pools)

    @property
    def blanket_probability(self) -> float:
        """γ = 2Φ(−1/(2σ)): how likely a report is one that everybody could have sent as well."""
        return math.erfc(1 / (2 * self.relative_sigma) / math.sqrt(2))
