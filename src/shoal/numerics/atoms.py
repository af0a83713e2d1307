"""δ(ε) of clones on a whole grid of ε at once, by adding up every outcome with its probability.

Given c clones, the number a of one kind among m = c + 1 has P-mass B(a)(1 + y) and Q-mass B(a)(1 − y), with B =
Bin(m, 1/2) and y = tanh(ε₀/2)·(2a − m)/m; its loss is l = 2·artanh(y). With P(l) and Q(l) the masses of the losses,

    δ(x) = Σ_{l > x} (P(l) − e^x·Q(l)),

and the sums for all grid points come from one pass over the cells of the grid, in positive terms only.
"""

import math

import numpy as np
from numpy.typing import NDArray

from shoal.numerics.binomial import EXPONENT_ERROR, Clones, log_probability, relative_entropy, running_product
from shoal.rounding import slack

__all__ = ["atom_brackets", "atoms_of"]

_CHUNK = 1 << 17


def atoms_of(pair: Clones, depth: float) -> float:
    """Return roughly how many atoms have to be visited."""
    clones = (pair.reports - 1) * pair.clone_probability
    return (2 * math.sqrt(2 * depth * clones) + 2 * depth) * (math.sqrt(0.5 * depth * (clones + 1)) + 2)


def atom_brackets(
    pair: Clones, step: float, count: int, depth: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return lower and upper bounds of δ at 0, h, …, (count − 1)·h; what is left out has probability exp(−depth)."""
    trials, probability, complement = pair.reports - 1, pair.clone_probability, pair.other_probability
    low, high, neglected = _window(trials, probability, complement, depth)
    clones = np.arange(low, high + 1, dtype=np.float64)
    centre = min(max(round(trials * probability) - low, 0), len(clones) - 1)
    weights = running_product((trials - clones[:-1]) / clones[1:] * (probability / complement), centre)
    sizes = clones + 1
    firsts = np.floor(sizes / 2) + 1  # the smallest counts of positive loss
    heads = running_product(sizes[1:] / np.where(np.diff(firsts) > 0, firsts[1:], sizes[1:] - firsts[1:]) / 2, centre)
    log_start = log_probability(trials, float(clones[centre]), probability, complement)
    log_start += log_probability(float(sizes[centre]), float(firsts[centre]), 0.5, 0.5)
    heads *= weights * math.exp(log_start)
    # Hoeffding: Bin(m, 1/2) exceeds m/2 + w with probability exp(−2w²/m) at most; P has at most twice that.
    width = int(math.sqrt(0.5 * depth * float(sizes[-1]))) + 2
    neglected += 2 * math.exp(-depth)
    small = math.exp(-pair.local_epsilon)
    slope, rest = math.tanh(pair.local_epsilon / 2), 2 * small / (1 + small)
    offsets = np.arange(width, dtype=np.float64)
    gains, opposite, masses = (np.zeros(count) for _ in range(3))
    rows = max(1, _CHUNK // width)
    for start in range(0, len(clones), rows):
        part = slice(start, start + rows)
        size, first = sizes[part, None], firsts[part, None]
        counts = first + offsets
        ratios = np.maximum(size - counts[:, :-1], 0.0) / (counts[:, :-1] + 1)
        heights = np.cumprod(np.concatenate((heads[part, None], ratios), axis=1), axis=1)
        shares = np.minimum((2 * counts - size) / size, 1.0)
        right = 1 + slope * shares
        wrong = rest * shares + 2 * np.maximum(size - counts, 0.0) / size  # 1 − y, without cancellation
        losses = np.log1p(2 * slope * shares / wrong).ravel()  # to full relative accuracy, however small
        mass = (heights * right).ravel()
        cells = np.minimum(losses / step, count - 1).astype(np.int64)
        gain = np.maximum(-mass * np.expm1(cells * step - losses), 0.0)
        gains += np.bincount(cells, gain, count)
        masses += np.bincount(cells, mass, count)
        opposite += np.bincount(cells, (heights * wrong).ravel(), count)
    beyond = np.cumsum(opposite[::-1])[::-1]
    points = np.exp(step * np.arange(count - 1)) * math.expm1(step)
    rises = gains + np.append(points * beyond[1:], 0.0)
    values = np.cumsum(rises[::-1])[::-1]
    tails = np.cumsum(masses[::-1])[::-1]
    # Running products are off by a few units a step; a loss by a few units of itself, which moves P − e^x·Q by as
    # much of P.
    spread = slack(8) * (2 * len(clones) + width + count + 64)
    spread += EXPONENT_ERROR * (16 + abs(log_start) + 2)
    # It may also fall on the wrong side of a grid point: then its cell is the one before.
    stray = slack(32) * (1 + pair.local_epsilon + step * count) * np.append(tails[0], tails[:-1])
    return np.maximum(values * (1 - spread) - stray, 0.0), values * (1 + spread) + stray + neglected


def _window(trials: int, probability: float, complement: float, depth: float) -> tuple[int, int, float]:
    """Return the numbers of clones to visit, and a bound of the probability of all others."""
    mean = trials * probability
    ends = []
    for sign in (-1, 1):
        width = math.sqrt(2 * depth * max(mean * complement, 1e-300)) + 1
        while True:
            end = mean + sign * width
            if not 0 < end < trials:
                break
            if trials * relative_entropy(end / trials, probability, complement) >= depth:
                break
            width *= 1.1
        ends.append(end)
    low, high = max(0, math.floor(ends[0])), min(trials, math.ceil(ends[1]))
    return low, high, 2 * math.exp(-depth)
