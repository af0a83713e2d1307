"""The standard normal distribution: tails, masses of cells, quantiles, and the Gaussian mechanism.

Φ is the distribution function and φ the density. `math.erfc` is within a few units of the last
place wherever its value is a normal float64 number, that is for arguments up to `EXACT`.
"""

import math
from statistics import NormalDist

import numpy as np

from shoal.arrays import Array
from shoal.checks import SMALLEST_DELTA
from shoal.rounding import slack

EXACT = 35.0
"""Φ(−x) is used up to here, and inequalities beyond. Any value up to `FARTHEST` would do."""
FARTHEST = 37.0
"""The largest x at which Φ(−x) and the density are normal float64 numbers."""
_EXPONENT = 700.0
"""The largest ε whose e^ε is evaluated; e^709 overflows."""
OUTWEIGH = 1e-10
"""How much a separation is enlarged to outweigh the rounding of masses; ε grows by less."""


def upper_tail(point: float) -> float:
    """Return Φ(−point), the probability of a value above `point`; within 4 units up to `EXACT`."""
    return 0.5 * math.erfc(point / math.sqrt(2))


def quantile(probability: float) -> float:
    """Return about the point below which a value lies with this probability."""
    return NormalDist().inv_cdf(probability)


def cell_masses(edges: Array) -> Array:
    """Return the probability of a value between each two neighbouring `edges`, which ascend.

    Each is a difference of the two smaller tails, so that its error is a few units of a tail.
    """
    # Φ(−|x|) at each edge, once.
    points = np.abs(edges) / math.sqrt(2)
    tails = np.array([math.erfc(point) for point in points.tolist()]) / 2
    right = edges > 0
    same_side = np.where(right[:-1], -np.diff(tails), np.diff(tails))
    # A cell that contains zero has one less both tails.
    across = 1 - tails[1:] - tails[:-1]
    return np.where(right[1:] & ~right[:-1], across, same_side)


def gaussian_delta(sigma: float, epsilon: float) -> float:
    """Return δ(ε) of a Gaussian mechanism with sensitivity 1 and noise `sigma`, rounded up."""
    return gaussian_bracket(sigma, epsilon)[1]


def gaussian_bracket(sigma: float, epsilon: float) -> tuple[float, float]:
    """Return lower and upper bounds of δ(ε) of a Gaussian mechanism with sensitivity 1.

    δ(ε) = Φ(−x) − e^ε·Φ(−y), x = εσ − 1/(2σ), y = εσ + 1/(2σ).
    """
    point = epsilon * sigma - 0.5 / sigma
    far = epsilon * sigma + 0.5 / sigma
    first = upper_tail(point)
    if far < EXACT:
        least = math.exp(min(epsilon, _EXPONENT)) * upper_tail(far)
        most = least if epsilon <= _EXPONENT else math.inf
    else:
        # φ(y)·y/(1 + y²) ≤ Φ(−y) ≤ φ(y)/y, and e^ε·φ(y) = φ(x).
        density = math.exp(-0.5 * point**2) / math.sqrt(2 * math.pi)
        least = density * far / (1 + far**2)
        most = density / far
    # A relative error of u in x or y changes a tail by at most u·(1 + y²) of itself.
    error = slack(64) * (1 + epsilon + far**2) * first
    # The tail may underflow.
    upper = max(0.0, first - least) + max(error, SMALLEST_DELTA)
    return max(0.0, first - most - 2 * error), min(1.0, upper)


def ratio_points(values: Array, ratio: tuple[float, float, float]) -> Array:
    """Return the Z at which V = exp(aZ − a²/2) − e^ε·exp(−bZ − b²/2) has each value, if any.

    V rises with Z. The ratio is (a, b, e^ε); a and b are equal, or one of them is 0.
    """
    above, below, exp_eps = ratio
    with np.errstate(divide="ignore", invalid="ignore"):
        if below == 0:
            logs = np.log(np.maximum(values + exp_eps, 0.0))
            points = (logs + above**2 / 2) / above
        elif above == 0:
            logs = np.log(np.maximum(1 - values, 0.0) / exp_eps)
            points = -(logs + below**2 / 2) / below
        else:  # y − e^ε/y = V·exp(a²/2) for y = exp(aZ)
            half = values * math.exp(above**2 / 2) / 2
            root = np.hypot(half, math.sqrt(exp_eps))
            y = np.where(half >= 0, half + root, exp_eps / (root - half))
            points = np.log(y) / above
    return np.nan_to_num(points, nan=0.0, posinf=1e300, neginf=-1e300)


def mean_kept(
    values: Array,
    points: Array,
    ratio: tuple[float, float, float],
    constant: float = 0.0,
) -> Array:
    """Return masses at `values`, to which V + constant of `ratio_points` is moved between points.

    Each cell goes to its two ends with its mass and its mean kept, which is larger in convex order.
    """
    above, below, exp_eps = ratio
    masses = cell_masses(points)
    # E[V; cell]: each exponential turns the normal density into a shifted one.
    first = cell_masses(points - above)
    second = cell_masses(points + below)
    means = first - exp_eps * second + constant * masses
    rights = np.clip((means - values[:-1] * masses) / np.diff(values), 0.0, masses)
    pmf = np.zeros(len(values))
    pmf[1:] += rights
    pmf[:-1] += masses - rights
    return pmf
