"""Who was trained on? An attack on a tiny model, many times, stays below the guarantee.

All examples but one pull the weights one way. The attacker knows everything but that one, trains on both datasets,
and asks which side of a level the weights end on. Clopper and Pearson's limits of both probabilities make a lower bound
on ε that is too large with a probability of at most 1e-7 for each attack.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from shoal import sgd
from shoal.auditing import probability_above, probability_below
from shoal.randomizers.coins import Simulation
from shoal.sgd import descent
from shoal.sgd.gradient_noise import noised
from shoal.sgd.sampler import SAMPLERS, Indices, Sampler
from shoal.sgd.samplers.allocation import Allocation

RISK, DELTA = 1e-7, 0.01
TRIALS = 1500


def _attacked(train: Callable[[NDArray[Any], int], float], datasets: list[NDArray[Any]]) -> float:
    """Return a lower bound on ε at δ, from the best level on the first half of the runs, tried on the second."""
    ends = [
        np.array([train(labels, 2 * seed + side) for seed in range(TRIALS)]) for side, labels in enumerate(datasets)
    ]
    halves = [np.split(part, 2) for part in ends]
    levels = np.quantile(np.concatenate([part[0] for part in halves]), np.linspace(0.02, 0.98, 49))
    best, event = -math.inf, (0, 1.0, 0.0)
    for level in levels.tolist():
        for side, sign in ((0, 1.0), (1, 1.0), (0, -1.0), (1, -1.0)):
            first, second = (np.mean(sign * halves[way][0] > sign * level) for way in (side, 1 - side))
            gain = math.log(max(first - DELTA, 1e-9) / max(second, 5 / TRIALS))
            if gain > best:
                best, event = gain, (side, sign, level)
    side, sign, level = event
    first, second = (int(np.sum(sign * halves[way][1] > sign * level)) for way in (side, 1 - side))
    least, most = probability_above(first, TRIALS // 2, RISK / 2), probability_below(second, TRIALS // 2, RISK / 2)
    return max(0.0, math.log((least - DELTA) / most)) if least > DELTA else 0.0


def _problem(examples: int) -> tuple[NDArray[Any], list[NDArray[Any]]]:
    """Return rows that are all alike, and labels that differ in the first example."""
    labels = np.ones(examples, np.int64)
    labels[-1] = 0  # both classes occur in both datasets
    other = labels.copy()
    other[0] = 0
    return np.full((examples, 1), 50.0), [labels, other]


def _trainer(kind: Any, rows: NDArray[Any], **settings: Any) -> Callable[[NDArray[Any], int], float]:
    def train(labels: NDArray[Any], seed: int) -> float:
        made = kind(
            fit_intercept=False,
            learning_rate=1e-6,
            average=False,
            simulation=Simulation(seed=seed),
            delta=DELTA,
            **settings,
        )
        return float(made.fit(rows, labels).coef_[0, 0])

    return train


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "examples", "settings"),
    [
        (sgd.PrivateLogisticRegression, 30, {"noise_multiplier": 1.0, "batch_size": 10, "sampling": "permutation"}),
        (sgd.PrivateLogisticRegression, 30, {"noise_multiplier": 1.0, "batch_size": 10, "sampling": "allocation"}),
        (sgd.PrivateLogisticRegression, 30, {"noise_multiplier": 1.0, "batch_size": 10, "sampling": "poisson"}),
        (sgd.PrivateLogisticRegression, 12, {"noise_multiplier": 2.0, "batch_size": 5, "epochs": 2}),
        (sgd.LocalLogisticRegression, 12, {"noise_multiplier": 1.0, "batch_size": 4}),
    ],
)
def test_the_attack_stays_below_the_guarantee(kind: Any, examples: int, settings: dict[str, Any]) -> None:
    rows, datasets = _problem(examples)
    train = _trainer(kind, rows, **settings)
    claimed = kind(delta=DELTA, simulation=Simulation(seed=1), **settings).fit(rows, datasets[0]).guarantee_.epsilon
    assert _attacked(train, datasets) <= claimed


@pytest.mark.slow
def test_the_attack_sees_too_little_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same attack refutes a trainer that adds a fifth of the noise it promises."""
    rows, datasets = _problem(12)
    settings: dict[str, Any] = {"noise_multiplier": 4.0, "batch_size": 12}
    run = sgd.Run(examples=12, batch_size=12, noise_multiplier=4.0, sampling="allocation")
    claimed = sgd.guarantee(run, delta=DELTA).epsilon
    monkeypatch.setattr(descent, "noised", lambda total, normals, **rest: noised(total, normals / 5, **rest))
    assert _attacked(_trainer(sgd.PrivateLogisticRegression, rows, **settings), datasets) > claimed


class _Kept(Allocation):
    """A planted fault: every example keeps its step for all epochs."""

    def batches(self, run: sgd.Run, *, key: bytes, epoch: int) -> list[Indices]:
        return super().batches(run, key=key, epoch=0)


class _Cut(Allocation):
    """A planted fault: a permutation in the place of an allocation."""

    def batches(self, run: sgd.Run, *, key: bytes, epoch: int) -> list[Indices]:
        return SAMPLERS["permutation"].batches(replace(run, sampling="permutation"), key=key, epoch=epoch)


def _sums(sampler: Sampler, run: sgd.Run, pull: float, victim: float, trials: int) -> NDArray[Any]:
    """Return noised sums along one direction: trials, epochs, steps; the others pull one way and the victim another."""
    numbers = np.random.default_rng(int(7 + victim))
    result = np.empty((trials, run.epochs, run.steps))
    for trial in range(trials):
        key = numbers.bytes(32)
        for epoch in range(run.epochs):
            for step, batch in enumerate(sampler.batches(run, key=key, epoch=epoch)):
                result[trial, epoch, step] = pull * len(batch) + ((victim - pull) if 0 in batch else 0.0)
    return result + run.multiplier * numbers.normal(size=result.shape)


def _refuted(sampler: Sampler, run: sgd.Run, pull: float, statistic: Callable[[Any], Any], trials: int) -> float:
    """Return a lower bound on ε from a statistic of all sums, wrong with a probability of at most 1e-7."""
    ends = [statistic(_sums(sampler, run, pull, victim, trials)) for victim in (1.0, 0.0)]
    level = float(np.quantile(ends[1], 0.995))
    first, second = (int((part[trials // 2 :] > level).sum()) for part in ends)
    half = trials - trials // 2
    least, most = probability_above(first, half, RISK / 2), probability_below(second, half, RISK / 2)
    return math.log((least - DELTA) / most) if least > DELTA else 0.0


@pytest.mark.slow
def test_planted_faults_of_samplers_are_refuted() -> None:
    """The ε of an allocation is not that of kept steps, nor of a permutation; the allocation itself withstands."""
    run = sgd.Run(examples=60, noise_multiplier=1.0, epochs=12, adjacency="zero-out", sampling="allocation")
    claimed = sgd.guarantee(run, delta=DELTA).epsilon
    # With kept steps, the sums of one step are all moved: their mean over epochs stands out.
    right, wrong = (
        _refuted(each, run, 0.0, lambda sums: sums.mean(axis=1).max(axis=1), 1200) for each in (Allocation(), _Kept())
    )
    assert right <= claimed < wrong
    run = sgd.Run(examples=400, batch_size=4, noise_multiplier=0.6, adjacency="zero-out", sampling="allocation")
    claimed = sgd.guarantee(run, delta=DELTA).epsilon
    # In a permutation all others pull as hard in every full batch, and the victim's stands out from that.
    right, wrong = (
        _refuted(each, run, -1.0, lambda sums: sums.max(axis=(1, 2)), 2000) for each in (Allocation(), _Cut())
    )
    assert right <= claimed < wrong
