"""Who was trained on? Membership inference on a tiny model, many times, stays below the guarantee.

All examples but one pull the weights one way. The attacker knows everything but that one, trains on both datasets,
and asks which side of a level the weights, or a statistic of all steps, end on. The level comes from the first half of
the runs. On the second half, Clopper and Pearson's limits of both probabilities make a lower bound on ε, which is too
large with a probability of at most 1e-7: so often is a trainer refuted by an attack although its guarantee is true.
There are 27 attacks on sound trainers here: any of them is refuted by mistake with a probability of at most 2.7e-6.

Every planted fault is refuted: steps that are kept for all epochs, a permutation in the place of an allocation, sums
that are divided by the number of examples that came up, steps without examples that get no noise or are drawn again,
and too little noise. The same attack leaves the sampler or trainer without the fault standing.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any, ClassVar

import numpy as np
import pytest
from numpy.typing import NDArray

from shoal import sgd
from shoal.auditing import probability_above, probability_below
from shoal.mechanisms.coins import Simulation
from shoal.sgd import logistic
from shoal.sgd.gradient_noise import noised
from shoal.sgd.sampler import SAMPLERS, Indices, Sampler
from shoal.sgd.samplers import Allocation, PoissonSampling
from tests.exhaustive import amount, representative

RISK, DELTA = 1e-7, 0.01
TRIALS = amount(800, 1500)


def _attacked(train: Callable[[NDArray[Any], int], float], datasets: list[NDArray[Any]]) -> float:
    """Return a lower bound on ε at δ, from where many trainings end."""
    return _told_apart(
        [np.array([train(labels, 2 * seed + side) for seed in range(TRIALS)]) for side, labels in enumerate(datasets)]
    )


def _told_apart(ends: list[NDArray[Any]]) -> float:
    """Return a lower bound on ε at δ, from the best level on the first half of the runs, tried on the second."""
    trials = len(ends[0]) // 2
    halves = [np.split(part, 2) for part in ends]
    levels = np.quantile(np.concatenate([part[0] for part in halves]), np.linspace(0.02, 0.98, 97))
    best, event = -math.inf, (0, 1.0, 0.0)
    for level in levels.tolist():
        for side, sign in ((0, 1.0), (1, 1.0), (0, -1.0), (1, -1.0)):
            first, second = (float(np.mean(sign * halves[way][0] > sign * level)) for way in (side, 1 - side))
            gain = math.log(max(_likely(first, trials)[0] - DELTA, 1e-9) / _likely(second, trials)[1])
            if gain > best:
                best, event = gain, (side, sign, level)
    side, sign, level = event
    first, second = (int(np.sum(sign * halves[way][1] > sign * level)) for way in (side, 1 - side))
    least, most = probability_above(first, trials, RISK / 2), probability_below(second, trials, RISK / 2)
    return max(0.0, math.log((least - DELTA) / most)) if least > DELTA else 0.0


def _likely(share: float, trials: int) -> tuple[float, float]:
    """Return Wilson's interval of a probability, which is about the one that counts, and faster."""
    square = 28.0 / trials  # 5.3 standard deviations, for a risk of RISK / 2
    reach = math.sqrt(square * (share * (1 - share) + square / 4))
    return (share + square / 2 - reach) / (1 + square), (share + square / 2 + reach) / (1 + square)


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
        *(
            (sgd.PrivateLogisticRegression, 30, {"noise_multiplier": 1.0, "batch_size": 10, "sampling": name})
            for name in SAMPLERS
        ),
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
    monkeypatch.setattr(logistic, "noised", lambda total, normals, **rest: noised(total, normals / 5, **rest))
    assert _attacked(_trainer(sgd.PrivateLogisticRegression, rows, **settings), datasets) > claimed


class _Kept(Allocation):
    """A planted fault: every example keeps its step for all epochs."""

    def batches(self, run: sgd.Run, *, key: bytes, epoch: int) -> list[Indices]:
        return super().batches(run, key=key, epoch=0)


class _Cut(Allocation):
    """A planted fault: a permutation in the place of an allocation."""

    def batches(self, run: sgd.Run, *, key: bytes, epoch: int) -> list[Indices]:
        return SAMPLERS["permutation"].batches(replace(run, sampling="permutation"), key=key, epoch=epoch)


class _Redrawn(PoissonSampling):
    """A planted fault: a step without examples is drawn again, until it has one."""

    def batches(self, run: sgd.Run, *, key: bytes, epoch: int) -> list[Indices]:
        drawn = super().batches(run, key=key, epoch=epoch)
        again = 0
        while not all(map(len, drawn)):
            again += 1
            fresh = super().batches(run, key=key, epoch=epoch + 1000 * again)
            drawn = [old if len(old) else new for old, new in zip(drawn, fresh, strict=True)]
        return drawn


def _sums(sampler: Sampler, run: sgd.Run, pull: float, victim: float, trials: int) -> NDArray[Any]:
    """Return noised sums along one direction: trials, epochs, steps; the others pull one way and the victim another."""
    numbers = np.random.default_rng(int(7 + victim))
    result = np.empty((trials, run.epochs, run.steps))
    for trial in range(trials):
        key = numbers.bytes(32)
        for epoch in range(run.epochs):
            batches = sampler.batches(run, key=key, epoch=epoch)
            sizes = np.array([len(batch) for batch in batches])
            taken = np.searchsorted(np.cumsum(sizes), np.flatnonzero(np.concatenate(batches) == 0), side="right")
            result[trial, epoch] = pull * sizes
            result[trial, epoch, taken] += victim - pull
    return result + run.multiplier * numbers.normal(size=result.shape)


FAULTS: dict[str, tuple[Sampler, Sampler, dict[str, Any], float, Callable[[Any], Any], int]] = {
    # With kept steps, the sums of one step are all moved: their mean over epochs stands out.
    "kept steps": (
        Allocation(),
        _Kept(),
        {"examples": 60, "noise_multiplier": 1.0, "epochs": 12},
        0.0,
        lambda sums: sums.mean(axis=1).max(axis=1),
        800,
    ),
    # In a permutation all others pull as hard in every full batch, and the victim's stands out from that.
    "a permutation": (
        Allocation(),
        _Cut(),
        {"examples": 400, "batch_size": 4, "noise_multiplier": 0.6},
        -1.0,
        lambda sums: sums.max(axis=(1, 2)),
        2000,
    ),
    # Where few examples are in many steps, to draw again until there is one brings the victim into half of them.
    "empty steps drawn again": (
        PoissonSampling(),
        _Redrawn(),
        {"examples": 2, "public_steps": 10, "noise_multiplier": 1.0},
        0.0,
        lambda sums: sums.sum(axis=(1, 2)),
        800,
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_of_samplers_are_refuted(fault: str) -> None:
    """The ε of a sampler is not that of the same one with a fault; it withstands the attack itself."""
    sound, faulty, setting, pull, statistic, trials = FAULTS[fault]
    run = sgd.Run(**setting, adjacency="zero-out", sampling=sound.name)
    claimed = sgd.guarantee(run, delta=DELTA).epsilon
    right, wrong = (
        _told_apart([statistic(_sums(each, run, pull, victim, trials)) for victim in (1.0, 0.0)])
        for each in (sound, faulty)
    )
    assert right <= claimed < wrong


class _Watched(logistic.Descent):
    """The training loop, by somebody who sees the model after every step."""

    seen: ClassVar[list[NDArray[Any]]] = []

    def step(self, total: NDArray[Any]) -> None:
        before, scale = self.model.flat.copy(), self._rate / math.sqrt(1 + 20 * self.done / self._steps)
        super().step(total)
        self.seen.append((before - self.model.flat) * self._run.batch_size / scale)


class _Divided(_Watched):
    """A planted fault: a sum is divided by the number of examples that came up, and not by b."""

    def _noised(self, chunk: Any, part: slice, epoch: int, ahead: int) -> NDArray[Any]:
        size = max(1, part.stop - part.start)
        vectors: NDArray[Any] = super()._noised(chunk, part, epoch, ahead) * (self._run.batch_size / size)
        return vectors


class _Silent(_Watched):
    """A planted fault: a step without examples gets no noise."""

    def _noised(self, chunk: Any, part: slice, epoch: int, ahead: int) -> NDArray[Any]:
        noisy = super()._noised(chunk, part, epoch, ahead)
        return noisy if part.stop > part.start else np.zeros_like(noisy)


def _watched(
    loop: type[_Watched],
    worlds: list[tuple[NDArray[Any], NDArray[Any]]],
    statistic: Callable[[NDArray[Any]], float],
    trials: int,
    **setting: Any,
) -> tuple[float, float]:
    """Return the lower bound on ε from a statistic of the steps of fits (steps, parameters), and the claimed ε."""
    ends: list[NDArray[Any]] = []
    claimed = 0.0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(logistic, "Descent", loop)
        for side, (rows, labels) in enumerate(worlds):
            values = np.empty(trials)
            for trial in range(trials):
                loop.seen.clear()
                model = sgd.PrivateLogisticRegression(
                    fit_intercept=False,
                    learning_rate=1e-6,
                    average=False,
                    classes=[0, 1],
                    simulation=Simulation(seed=2 * trial + side),
                    delta=DELTA,
                    **setting,
                ).fit(rows, labels)
                values[trial] = statistic(np.array(loop.seen))
            ends.append(values)
            claimed = model.guarantee_.epsilon
    return _told_apart(ends), claimed


def _zeroed(examples: int, features: int) -> list[tuple[NDArray[Any], NDArray[Any]]]:
    """Return data whose first example pulls against all others along the first feature, and the same with it zeroed."""
    rows, labels = np.zeros((examples, features)), np.ones(examples, np.int64)
    rows[:, 0], labels[0] = 50.0, 0
    zeroed = rows.copy()
    zeroed[0] = 0.0
    return [(rows, labels), (zeroed, labels)]


def _standing_out(steps: NDArray[Any], *, noise: float, size: int) -> float:
    """Return how far a sum stands out from what its other examples add up to, judging their number by the noise."""
    scale = np.sqrt((steps[:, 1:] ** 2).mean(axis=1)) / noise
    return float((steps[:, 0] / scale + size / scale).max())


@pytest.mark.slow
def test_a_sum_divided_by_the_size_that_came_up_is_refuted() -> None:
    """The scale of the noise tells the size, and with it what the others add up to, as in a permutation."""
    setting: dict[str, Any] = {"noise_multiplier": 0.6, "batch_size": 6, "adjacency": "zero-out"}
    statistic = partial(_standing_out, noise=0.6, size=6)
    sound, claimed = _watched(_Watched, _zeroed(480, 48), statistic, amount(400, 1200), **setting)
    refuted, same = _watched(_Divided, _zeroed(480, 48), statistic, 1200, **setting)
    assert sound <= claimed == same < refuted


@pytest.mark.slow
def test_a_step_without_noise_is_refuted() -> None:
    """With two examples and twenty steps, the steps that moved tell whether there is a third."""
    setting: dict[str, Any] = {"noise_multiplier": 1.0, "batch_size": 1, "public_steps": 20, "adjacency": "add-remove"}
    rows, labels = _zeroed(3, 2)[0]
    worlds = [(rows, labels), (rows[1:], labels[1:])]

    def moved(steps: NDArray[Any]) -> float:
        return float((steps[:, 1] != 0).sum())

    sound, claimed = _watched(_Watched, worlds, moved, 600, **setting)
    refuted, same = _watched(_Silent, worlds, moved, 600, **setting)
    assert sound <= claimed == same < refuted


@pytest.mark.slow
@pytest.mark.parametrize(("sampling", "epochs"), representative(product(SAMPLERS, (1, 4)), len(SAMPLERS)))
def test_every_step_is_seen_and_the_guarantee_holds(sampling: str, epochs: int) -> None:
    """Two statistics of all steps, of those that betray faults and short cuts, on what each sampler really does."""
    setting: dict[str, Any] = {"noise_multiplier": 1.0, "batch_size": 3, "adjacency": "zero-out", "epochs": epochs}
    for statistic in (lambda steps: float(steps[:, 0].max()), lambda steps: float(steps[:, 0].sum())):
        found, claimed = _watched(_Watched, _zeroed(30, 1), statistic, amount(250, 400), sampling=sampling, **setting)
        assert found <= claimed
