"""Exact divergences of small shuffled protocols by enumeration, and the bound by clones, atom by atom.

Everything has a leading axis of protocols, so that many small ones are enumerated at once. Nothing is shared with the
library.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from itertools import product

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

Array = NDArray[np.float64]
History = tuple[int, ...]
Protocol = Mapping[History, Array]
"""After each history, (protocols, 2 + others, outputs): the victim in world 0, in world 1, and the other people."""


def histories(people: int, outputs: int) -> list[History]:
    """Return every history after which somebody reports."""
    return [history for length in range(people) for history in product(range(outputs), repeat=length)]


def shuffled_distributions(protocol: Protocol) -> tuple[Array, Array]:
    """Return the distributions of all reports in order, in both worlds, as (protocols, sequences).

    The weight of a set of people is the sum, over the orders in which exactly they came first, of the probability of
    the history. Each order of everybody has the same probability.
    """
    first = protocol[()]
    people, outputs = first.shape[1] - 1, first.shape[2]
    worlds = []
    for world in (0, 1):
        rows = [world, *range(2, people + 1)]
        found: list[Array] = []
        stack: list[tuple[History, dict[int, Array]]] = [((), {0: np.ones(len(first))})]
        while stack:
            history, weights = stack.pop()
            if len(history) == people:
                found.append(weights[2**people - 1])
                continue
            for output in range(outputs):
                grown: dict[int, Array] = {}
                for came, weight in weights.items():
                    for person, row in enumerate(rows):
                        if not came >> person & 1:
                            more = weight * protocol[history][:, row, output] / (people - len(history))
                            grown[came | 1 << person] = grown.get(came | 1 << person, 0.0) + more
                stack.append(((*history, output), grown))
        worlds.append(np.stack(found, axis=1))
    return worlds[0], worlds[1]


def hockey_stick(first: Array, second: Array, ratio: Array) -> Array:
    """Return ∫(first − ratio · second)₊ over the last axis."""
    return np.asarray(np.maximum(first - ratio[..., None] * second, 0).sum(axis=-1))


def positive_part(people: int, values: Array, probabilities: Array) -> Array:
    """Return E[(W₁ + … + Wₙ)₊]/n, by visiting every sequence of the atoms (protocols, atoms) of W."""
    sums, weights = np.zeros((len(values), 1)), np.ones((len(values), 1))
    for _ in range(people):
        sums = (sums[:, :, None] + values[:, None, :]).reshape(len(values), -1)
        weights = (weights[:, :, None] * probabilities[:, None, :]).reshape(len(values), -1)
    return np.asarray((np.maximum(sums, 0) * weights).sum(axis=1) / people)


def clones(people: int, triple: Array, ratio: Array, slack: Array) -> Array:
    """Return E[(W₁ + … + Wₙ)₊]/n for W = slack · (U₀ − ratio · U₁)/U with probability 1/slack under U, and 0 otherwise.

    The triple (protocols, 3, atoms) holds U₀, U₁ and U.
    """
    zero, one, blanket = np.moveaxis(triple, 1, 0)
    gain = np.divide(zero - ratio[:, None] * one, blanket, out=np.zeros_like(zero), where=blanket > 0)
    values = np.concatenate([slack[:, None] * gain, np.zeros((len(gain), 1))], axis=1)
    probabilities = np.concatenate([blanket / slack[:, None], 1 - 1 / slack[:, None]], axis=1)
    return positive_part(people, values, probabilities)


def mixed(pair: Array) -> Array:
    """Return the triple whose third distribution is the mean of the pair."""
    return np.concatenate([pair, pair.mean(axis=1, keepdims=True)], axis=1)


def deficit(protocol: Protocol, blankets: Mapping[History, Array], slack: Array) -> Array:
    """Return the largest ∫(blanket/slack − Rⱼ)₊ over histories and other people."""
    worst = np.max(
        [
            np.maximum(blankets[history][:, None] / slack[:, None, None] - distributions[:, 2:], 0)
            .sum(axis=-1)
            .max(axis=-1)
            for history, distributions in protocol.items()
        ],
        axis=0,
    )
    return np.asarray(worst)


def overlap(protocol: Protocol, blankets: Mapping[History, Array], ratio: Array, slack: Array) -> Array:
    """Return the largest ∫(R₀ − ratio · R₁)₊ (1 − slack · Rⱼ/blanket)₊ over histories and other people."""
    largest = np.zeros_like(ratio)
    for history, distributions in protocol.items():
        gain = np.maximum(distributions[:, 0] - ratio[:, None] * distributions[:, 1], 0)
        blanket = blankets[history][:, None]
        share = np.divide(distributions[:, 2:], blanket, out=np.ones_like(distributions[:, 2:]), where=blanket > 0)
        missing = np.maximum(1 - slack[:, None, None] * share, 0)
        largest = np.maximum(largest, (gain[:, None] * missing).sum(axis=-1).max(axis=-1))
    return largest


def additive(people: int, triple: Array, ratio: Array, slack: Array, *, lost: Array) -> Array:
    """Return the bound that charges the deficit of every other person, in both worlds."""
    return clones(people, triple, ratio, slack) + (people - 1) * lost * (1 + ratio)


def multiplied(people: int, triple: Array, ratio: Array, slack: Array, *, lost: Array, met: Array) -> Array:
    """Return the bound that charges the deficit once, where it meets the victim, and multiplies by (1 + deficit)ⁿ⁻¹."""
    return np.asarray((1 + lost) ** (people - 1) * (clones(people, triple, ratio, slack * (1 + lost)) + met))


def play(people: int, outputs: int, maker: Callable[[History], Array]) -> dict[History, Array]:
    """Return the protocol whose distributions after each history are made by this function."""
    return {history: maker(history) for history in histories(people, outputs)}


def swapped(protocol: Protocol) -> dict[History, Array]:
    """Return the protocol with the two worlds exchanged."""
    return {
        history: np.concatenate([distributions[:, 1::-1], distributions[:, 2:]], axis=1)
        for history, distributions in protocol.items()
    }


def gaussian(shift: float, ratio: float) -> float:
    """Return the divergence of two normal distributions this many deviations apart."""
    if shift == 0:
        return max(0.0, 1 - ratio)
    epsilon = math.log(ratio)
    return float(norm.cdf(shift / 2 - epsilon / shift) - ratio * norm.cdf(-shift / 2 - epsilon / shift))


def gaussian_triple(shift: float, bins: int) -> Array:
    """Return a finite triple, with the mean as third distribution, that dominates N(shift/2, 1) against N(−shift/2, 1).

    The loss is cut into bins. Both masses of a bin are kept and put on the two rays at its ends; the outermost rays
    are the axes.
    """
    loss = np.concatenate([[-np.inf], np.linspace(-4.5 * shift, 4.5 * shift, bins - 1), [np.inf]])
    masses = np.stack([np.diff(norm.cdf(loss / shift, centre)) for centre in (shift / 2, -shift / 2)])
    rays = np.stack([1 / (1 + np.exp(-loss)), 1 / (1 + np.exp(loss))])
    low, high = rays[:, :-1], rays[:, 1:]
    area = high[0] * low[1] - low[0] * high[1]
    weights = np.zeros_like(loss)
    weights[:-1] += np.maximum(masses[1] * high[0] - masses[0] * high[1], 0) / area
    weights[1:] += np.maximum(masses[0] * low[1] - masses[1] * low[0], 0) / area
    return mixed((weights * rays)[None])


def centred(people: int, means: tuple[float, float], ratio: float, slack: float, bins: int) -> float:
    """Return the clones' bound for a victim at N(means, 1) and the blanket N(0, 1)/slack.

    W/slack is monotone in the report. Each bin's mass is split between its ends with the mean kept, which is larger
    in the convex order. What the victim has beyond the last bins is charged.
    """
    reach = 6 + max(map(abs, means))
    edges = np.linspace(-reach, reach, bins)
    zero, one = (np.exp(mean * edges - mean * mean / 2) for mean in means)
    values = zero - ratio * one
    mass = np.diff(norm.cdf(edges))
    mean = np.diff(norm.cdf(edges, means[0])) - ratio * np.diff(norm.cdf(edges, means[1]))
    share = (mean - values[:-1] * mass) / np.diff(values)
    probabilities = np.zeros(bins)
    probabilities[1:] += share
    probabilities[:-1] += mass - share
    probabilities = np.append(probabilities / slack, 1 - probabilities.sum() / slack)
    beyond = float(norm.sf(reach, means[0]) + norm.cdf(-reach, means[0]))
    return float(positive_part(people, np.append(slack * values, 0.0)[None], probabilities[None])[0]) + beyond
