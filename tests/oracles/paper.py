"""The paper's own algorithms by their numbers, written out as it prints them (arXiv 2012.12803v3).

Algorithms 1 and 3, which act on whole datasets, are in `post_processing.py`; the others are here.

They are the yardstick for speed and for tightness, so nothing here is made faster or tighter than the text.
Everything is in floats: differences of cumulative probabilities are good to about 1e-15 and no further.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

Vector = NDArray[np.float64]


def private_sgd(
    examples: Sequence[int],
    gradient: Callable[[Vector, int], Vector],
    *,
    start: Vector,
    rates: Sequence[float],
    noise: Sequence[Vector],
    as_printed: bool = False,
) -> Vector:
    """Return θₙ of Algorithm 2: one noisy step along the clipped gradient of each example, in the order given.

    The permutation π is the order of the examples, and `noise` has b₁, …, bₙ. The paper clips g to g̃ and then steps
    along g + b, which has no guarantee (erratum 13); `as_printed` does that, and else the step is along g̃ + b.
    """
    theta = start
    for example, rate, extra in zip(examples, rates, noise, strict=True):
        whole = gradient(theta, example)
        clipped = whole / max(1.0, float(np.linalg.norm(whole)))
        theta = theta - rate * ((whole if as_printed else clipped) + extra)
    return theta


def sgd_deviation(local_epsilon: float, local_delta: float) -> float:
    """Return the σ of Algorithm 2, (1 + √(2 ln(1/δ₀)))/ε₀, which is too small for a replaced example (erratum 12)."""
    return (1 + math.sqrt(2 * math.log(1 / local_delta))) / local_epsilon


def partial_integral(count: int, epsilon: float, local_epsilon: float, direction: Literal["+", "-"]) -> float:
    """Return the paper's B(c, ε, ε₀, b), Algorithm 5: the hockey-stick divergence of the pair given that C = c.

    Direction "+" is P against Q and "-" is Q against P. The paper asks for ε < ε₀; where floats cannot tell
    the two apart the integrand is nowhere positive and the answer is 0.
    """
    factor = math.exp(epsilon)
    truth = math.exp(local_epsilon) / (math.exp(local_epsilon) + 1)
    if (factor + 1) * truth - factor <= 0:
        return 0.0
    effective_epsilon = math.log(((factor + 1) * truth - 1) / ((factor + 1) * truth - factor))
    sign = 1 if direction == "+" else -1
    fraction = 1 / (math.exp(sign * effective_epsilon) + 1)
    threshold = fraction * (count + 1)
    here = float(binom.cdf(threshold, count, 0.5))
    below = float(binom.cdf(threshold - 1, count, 0.5))
    mass_p = truth * here + (1 - truth) * below
    mass_q = (1 - truth) * here + truth * below
    if direction == "+":
        return mass_p - factor * mass_q
    return (1 - mass_q) - factor * (1 - mass_p)


def clones_delta(reports: int, local_epsilon: float, delta_cap: float, step: int, epsilon: float) -> float:
    """Return the paper's M₁(n, ε₀, δᵁ, S, ε), Algorithm 6: an upper bound on δ at ε, or δᵁ once that is passed."""
    delta_p = 0.0
    delta_q = 0.0
    covered = 0.0
    clone_probability = math.exp(-local_epsilon)
    for t in range(reports // step + 1):
        start = t * step
        if max(delta_p, delta_q) > delta_cap:
            return delta_cap
        elif 1 - covered < delta_p and 1 - covered < delta_q:
            return max(delta_p + 1 - covered, delta_q + 1 - covered)
        else:
            largest = start + step - 1
            smallest = start
            mass = float(
                binom.cdf(largest, reports - 1, clone_probability)
                - binom.cdf(smallest - 1, reports - 1, clone_probability)
            )
            largest_p = partial_integral(largest, epsilon, local_epsilon, "+")
            smallest_p = partial_integral(smallest, epsilon, local_epsilon, "+")
            delta_p += mass * max(largest_p, smallest_p)
            largest_q = partial_integral(largest, epsilon, local_epsilon, "-")
            smallest_q = partial_integral(smallest, epsilon, local_epsilon, "-")
            delta_q += mass * max(largest_q, smallest_q)
            covered += mass
    return max(delta_p, delta_q)


def binary_search(local_epsilon: float, delta: float, iterations: int, bound: Callable[[float], float]) -> float:
    """Return the paper's BinS(ε₀, δ, T, M), Algorithm 4: the right end of the last interval, or ε₀."""
    left = 0.0
    right = local_epsilon
    for _ in range(iterations):
        middle = (left + right) / 2
        if bound(middle) < delta:
            right = middle
        else:
            left = middle
    return right


def binary_search_lower(local_epsilon: float, delta: float, iterations: int, bound: Callable[[float], float]) -> float:
    """Return the paper's BinSLower(ε₀, δ, T, M), Algorithm 7: the left end of the last interval, M(ε) >= δ or ε = 0."""
    left = 0.0
    right = local_epsilon
    for _ in range(iterations):
        middle = (left + right) / 2
        if bound(middle) < delta:
            right = middle
        else:
            left = middle
    return left


def two_rr_delta(reports: int, local_epsilon: float, epsilon: float) -> float:
    """Return the paper's M(ε) = D(c₀, c₁) for shuffled 2RR, the larger of the two directions.

    c₀ ~ Bin(n, 1/(e^ε₀+1)) and c₁ ~ Bin(n-1, 1/(e^ε₀+1)) + Ber(e^ε₀/(e^ε₀+1)) count the ones reported from
    (0, ..., 0) and (1, 0, ..., 0).
    """
    factor = math.exp(epsilon)
    lie = 1 / (math.exp(local_epsilon) + 1)
    truth = math.exp(local_epsilon) / (math.exp(local_epsilon) + 1)
    counts = np.arange(reports + 1)
    all_zero = binom.pmf(counts, reports, lie)
    others = binom.pmf(counts, reports - 1, lie)
    others_less = binom.pmf(counts - 1, reports - 1, lie)
    one_one = truth * others_less + (1 - truth) * others
    forward = float(np.sum(np.maximum(all_zero - factor * one_one, 0)))
    backward = float(np.sum(np.maximum(one_one - factor * all_zero, 0)))
    return max(forward, backward)


def clones_epsilon(reports: int, local_epsilon: float, delta: float, step: int = 100, iterations: int = 10) -> float:
    """Return the paper's "Clones, empirical", BinS(ε₀, δ, T, M₁(n, ε₀, δ, S, ·)): an upper bound on ε."""
    return binary_search(
        local_epsilon,
        delta,
        iterations,
        lambda epsilon: clones_delta(reports, local_epsilon, delta, step, epsilon),
    )


def two_rr_lower_epsilon(reports: int, local_epsilon: float, delta: float, iterations: int) -> float:
    """Return the paper's "2RR, lower bound", BinSLower(ε₀, δ, T, M): a lower bound on ε."""
    return binary_search_lower(
        local_epsilon, delta, iterations, lambda epsilon: two_rr_delta(reports, local_epsilon, epsilon)
    )
