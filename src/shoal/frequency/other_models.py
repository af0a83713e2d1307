"""What histograms cost elsewhere: with a trusted curator, and without a shuffler. For comparison."""

import math

from shoal.calibration import gaussian_spread
from shoal.randomizers import Categorical, RandomizedResponse, SubsetSelection, UnaryEncoding

__all__ = ["central_error", "local_error"]

_LINEAR = 1e-9
"""Below this ε, errors without a shuffler are as 1/ε, and probabilities too close to tell apart."""


def central_error(*, categories: int, reports: int, epsilon: float, delta: float, times: int = 1) -> float:
    """Return the ℓ₂ error of all frequencies in one round if a curator adds the noise, Gaussian or Laplace.

    Replacing one person changes two counts by one each. The Laplace noise has scale 2/ε, and the Gaussian noise is
    calibrated exactly (Balle and Wang, ICML 2018), for all rounds together; it is the less of the two.
    """
    laplace = math.sqrt(2) * 2 * times / epsilon
    gaussian = math.sqrt(2 * times) / gaussian_spread(epsilon, delta)
    return math.sqrt(categories) * min(laplace, gaussian) / reports


def local_error(*, categories: int, reports: int, epsilon: float) -> float:
    """Return the least ℓ₂ error of all mechanisms of shoal if every report has to be ε-DP by itself."""
    best: tuple[type[Categorical], ...] = (RandomizedResponse, SubsetSelection, UnaryEncoding)  # no other is better
    least = max(epsilon, _LINEAR)
    error = min(
        math.sqrt(float(kind(categories=categories, local_epsilon=least).variance(reports=reports).sum()))
        for kind in best
    )
    return error * (least / epsilon)
