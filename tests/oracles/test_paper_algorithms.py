"""Algorithms 1 to 3 of the paper, run as they are printed, against shuffled protocols and against the library."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

import shoal
from shoal.sgd.gradient_noise import Noise, key_of, margin_for, noised
from shoal.sgd.run import Run
from tests.oracles import enumeration, paper
from tests.oracles.enumeration import Distribution, Outputs
from tests.oracles.post_processing import Common, LeftOver, Row, Symbols, algorithm_1, algorithm_3, symbols_distribution

_PEOPLE = 3
_VICTIM = (0, 1)
"""The victim's two inputs; the others hold 2 and 3."""
_OTHERS = (2, 3)
_HISTORIES: list[Outputs] = [past for length in range(_PEOPLE) for past in product(range(2), repeat=length)]


def row() -> list[Fraction]:
    """Return a random distribution of one bit."""
    first = Fraction(random.randint(0, 12), 12)
    return [first, 1 - first]


def mixed(*parts: tuple[Fraction, Row]) -> list[Fraction]:
    return [sum((weight * each[output] for weight, each in parts), Fraction(0)) for output in range(2)]


def through(algorithm: Callable[..., Distribution], symbols: dict[Symbols, Fraction], *parts: object) -> Distribution:
    """Return the distribution of what an algorithm makes of random symbols."""
    total: Distribution = {}
    for each, mass in symbols.items():
        for outputs, probability in algorithm(each, _OTHERS, *parts).items():
            total[outputs] = total.get(outputs, Fraction(0)) + mass * probability
    return total


@pytest.mark.parametrize("share", [Fraction(1, 3), Fraction(1, 7), Fraction(1)])
def test_algorithm_1_makes_the_reports_of_either_world(share: Fraction) -> None:
    """Lemma 3.3, for a protocol in which everybody's randomizer depends on all reports before."""
    common: dict[Outputs, list[list[Fraction]]] = {history: [row(), row()] for history in _HISTORIES}
    left: dict[Outputs, dict[int, list[Fraction]]] = {history: {2: row(), 3: row()} for history in _HISTORIES}
    protocol = {
        history: [
            *common[history],
            *(mixed(*((share / 2, each) for each in common[history]), (1 - share, left[history][x])) for x in _OTHERS),
        ]
        for history in _HISTORIES
    }
    others = [share / 2, share / 2, 1 - share]
    for world in (0, 1):
        victim = [Fraction(symbol == world) for symbol in range(3)]
        made = through(algorithm_1, symbols_distribution(_PEOPLE, victim, others), common, left)
        assert made == enumeration.adaptive_distribution(protocol, (_VICTIM[world], *_OTHERS))
        assert sum(made.values()) == 1


@pytest.mark.parametrize(("p", "q"), [(Fraction(1, 4), Fraction(1, 2)), (Fraction(1, 3), Fraction(2, 3))])
def test_algorithm_3_makes_the_reports_of_either_world(p: Fraction, q: Fraction) -> None:
    """The reduction of Theorem 4.1, again for a protocol that depends on all reports before."""
    common: dict[Outputs, list[list[Fraction]]] = {history: [row(), row(), row()] for history in _HISTORIES}
    left: dict[Outputs, dict[int, list[Fraction]]] = {history: {2: row(), 3: row()} for history in _HISTORIES}
    protocol = {
        history: [
            *(mixed((q, parts[x]), (1 - q, parts[2])) for x in _VICTIM),
            *(mixed(*((p, each) for each in parts), (1 - 3 * p, left[history][x])) for x in _OTHERS),
        ]
        for history, parts in common.items()
    }
    for world in (0, 1):
        victim = [q * (world == 0), q * (world == 1), 1 - q, Fraction(0)]
        made = through(algorithm_3, symbols_distribution(_PEOPLE, victim, [p, p, p, 1 - 3 * p]), common, left)
        assert made == enumeration.adaptive_distribution(protocol, (_VICTIM[world], *_OTHERS))


@pytest.mark.parametrize("epsilon", [0.0, 0.2, 0.9])
@pytest.mark.parametrize("reports", [2, 5])
def test_the_symbols_of_algorithm_1_are_the_clones_pair(reports: int, epsilon: float) -> None:
    """Theorem 3.2: the victim's symbol comes from binary randomized response, and δ(ε) is that of the library."""
    likelihood = Fraction(3)  # e^ε₀
    others = [1 / (2 * likelihood), 1 / (2 * likelihood), 1 - 1 / likelihood]
    worlds = [
        symbols_distribution(reports, [*victim, Fraction(0)], others)
        for victim in ([likelihood / (likelihood + 1), 1 / (likelihood + 1)],
                       [1 / (likelihood + 1), likelihood / (likelihood + 1)])
    ]  # fmt: skip
    truth = enumeration.hockey_stick(worlds[0], worlds[1], epsilon)
    ours = shoal.amplify(local_epsilon=math.log(3), reports=reports, bound="clones").delta(epsilon)
    assert truth == pytest.approx(enumeration.hockey_stick(worlds[1], worlds[0], epsilon), rel=1e-12)
    assert truth * (1 - 1e-12) <= ours <= truth * (1 + 1e-9)


@pytest.mark.parametrize("epsilon", [0.0, 0.2, 0.6])
@pytest.mark.parametrize("reports", [2, 4])
def test_the_symbols_of_algorithm_3_are_the_pair_of_theorem_4_1(reports: int, epsilon: float) -> None:
    """For k-ary randomized response, with the p and q of Corollary 4.2."""
    k, likelihood = 4, Fraction(3)
    p, q = Fraction(k, (k + 1)) / (likelihood + k - 1), (likelihood - 1) / (likelihood + k - 1)
    worlds = [
        symbols_distribution(reports, [q * (world == 0), q * (world == 1), 1 - q, Fraction(0)], [p, p, p, 1 - 3 * p])
        for world in (0, 1)
    ]
    truth = enumeration.hockey_stick(worlds[0], worlds[1], epsilon)
    mechanism = shoal.RandomizedResponse(categories=k, local_epsilon=math.log(3))
    ours = shoal.amplify(mechanism, reports=reports, bound="decomposition").delta(epsilon)
    assert truth * (1 - 1e-12) <= ours <= truth * (1 + 1e-9)


def test_a_post_processing_that_knows_too_much_is_noticed() -> None:
    """Were left-over people drawn with replacement, it would not be the protocol."""
    common: Common = {history: [[Fraction(1), Fraction(0)]] * 2 for history in _HISTORIES}
    left: LeftOver = {history: {2: [Fraction(1), Fraction(0)], 3: [Fraction(0), Fraction(1)]} for history in _HISTORIES}
    assert set(algorithm_1((2, 2, 0), _OTHERS, common, left)) >= {(0, 1, 0), (1, 0, 0)}
    assert algorithm_1((2, 2, 0), _OTHERS, common, left).get((0, 0, 0), 0) == 0


def test_algorithm_2_is_what_the_library_trains() -> None:
    """One example a step over a permutation, with the noise of the paper: the same model in the end."""
    examples, deviation, rate = 60, paper.sgd_deviation(8.0, 1e-6), 0.5
    generator = np.random.default_rng(random.randrange(2**32))
    points = generator.normal(size=(examples, 3)) * 4
    labels = (points[:, 0] > points[:, 1]).astype(int)
    model = shoal.sgd.PrivateLogisticRegression(
        noise_multiplier=deviation, batch_size=1, epochs=1, sampling="permutation", learning_rate=rate,
        regularization=0.0, average=False, simulation=shoal.Simulation(seed=7),
    ).fit(points, labels)  # fmt: skip

    run = Run(examples=examples, batch_size=1, noise_multiplier=deviation, releases="sums")
    key = key_of(shoal.Simulation(seed=7))
    order = [int(batch[0]) for batch in run.sampler.batches(run, key=key, epoch=0)]
    assert sorted(order) == list(range(examples))
    source, margin = Noise(key=key), margin_for(1, single=False, parameters=4)
    noise = [
        noised(np.zeros(4), source.normals(4, epoch=0, step=step), deviation=run.sum_deviation, margin=margin)
        for step in range(examples)
    ]

    def gradient(theta: paper.Vector, example: int) -> paper.Vector:
        point = np.append(points[example], 1.0)
        return np.asarray((1 / (1 + math.exp(-theta @ point)) - labels[example]) * point)

    rates = [rate / math.sqrt(1 + 20 * step / examples) for step in range(examples)]
    expected = paper.private_sgd(order, gradient, start=np.zeros(4), rates=rates, noise=noise)
    found = np.append(model.coef_.ravel(), model.intercept_)
    assert np.abs(found - expected).max() < 1e-4  # the library rounds every noised sum to a grid of 2⁻²⁰ deviations
    printed = paper.private_sgd(order, gradient, start=np.zeros(4), rates=rates, noise=noise, as_printed=True)
    assert np.abs(printed - expected).max() > 0.01
