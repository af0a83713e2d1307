"""Audits: no honest mechanism is accused, planted faults are caught, and shuffled reports keep what is promised."""

import dataclasses
import json
import math
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import beta

import shoal
import shoal.cli.verbs.audit
from shoal import Laplace, ParameterError, RandomizedResponse, Rappor, Simulation, SubsetSelection, UnaryEncoding
from shoal.auditing import Audit, ProtocolAudit, audit, probability_above, probability_below
from shoal.cli.app import app
from shoal.mechanisms import kinds
from shoal.mechanisms.categorical import Categorical
from shoal.mechanisms.coins import Coins
from shoal.mechanisms.mechanism import Reports
from shoal.mechanisms.one_bit_mean import OneBitMean
from tests.exhaustive import representative

MECHANISMS = kinds("categories", within=("categories", "local_epsilon"))

_FALSE_ALARM = 1e-6
"""That an honest mechanism fails anything here, all tests together; half for audits, half for shuffled runs."""
_MOST_AUDITS = 250
_CONFIDENCE = 1 - _FALSE_ALARM / 2 / _MOST_AUDITS

_HONEST = [
    *((name, k, e) for name in sorted(MECHANISMS) for k, e in ((2, 1.0), (3, 0.2), (5, 4.0), (10, 1.0), (64, 2.0))),
    *((name, 1000, 3.0) for name in ("hadamard-response", "randomized-response", "local-hashing")),
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "categories", "local_epsilon"), representative(_HONEST, 24))
def test_honest_mechanisms_pass(name: str, categories: int, local_epsilon: float) -> None:
    assert 2 * len(_HONEST) + 20 < _MOST_AUDITS
    made = MECHANISMS[name](categories=categories, local_epsilon=local_epsilon)
    found = audit(made, trials=40_000, confidence=_CONFIDENCE, simulation=Simulation(seed=categories))
    assert found.passed, found
    if local_epsilon >= 1 and categories <= 10:
        assert found.lower > 0.6 * local_epsilon  # an audit that sees nothing would pass everybody
    other = audit(
        made,
        trials=20_000,
        confidence=_CONFIDENCE,
        first=categories - 1,
        second=categories // 2 - 1,
        simulation=Simulation(seed=1),
    )
    assert other.passed, other


@pytest.mark.slow
@pytest.mark.parametrize(
    "made",
    [Laplace(local_epsilon=1), Laplace(local_epsilon=3, lower=-2, upper=5), OneBitMean(local_epsilon=2)],
    ids=["laplace", "laplace on an interval", "one bit"],
)
def test_honest_noise_passes(made: Any) -> None:
    found = audit(made, trials=80_000, confidence=_CONFIDENCE, simulation=Simulation(seed=1))
    assert found.passed, found
    assert found.lower > 0.7 * found.claimed
    assert (found.first, found.second) == (made.lower, made.upper)


@dataclass(frozen=True)
class Claims:
    """A mechanism that claims an ε₀ that is not its own."""

    inner: Any
    local_epsilon: float

    def randomize(self, values: Any, *, simulation: Simulation | None = None) -> NDArray[Any]:
        found: NDArray[Any] = self.inner.randomize(values, simulation=simulation)
        return found

    def to_dict(self) -> dict[str, Any]:
        return {**self.inner.to_dict(), "local_epsilon": self.local_epsilon}


@dataclass(frozen=True)
class DrawsFromAll:
    """Subset selection as it was published: where the truth is to be left out, it is drawn from all categories."""

    categories: int
    size: int
    local_epsilon: float

    def randomize(self, values: Any, *, simulation: Simulation | None = None) -> NDArray[Any]:
        assert simulation is not None
        inside = self.size * math.exp(self.local_epsilon)
        probability = inside / (inside + self.categories - self.size)
        count = len(values)
        sure = SubsetSelection(categories=self.categories, local_epsilon=60, size=self.size)
        never = SubsetSelection(categories=self.categories, local_epsilon=1e-15, size=self.size)
        coins = simulation.words(count).astype(np.float64) / 2.0**64 < probability
        with_truth, from_all = (each.randomize(values, simulation=simulation) for each in (sure, never))
        return np.where(coins[:, None], with_truth, from_all)


@dataclass(frozen=True)
class TruthFirst:
    """Subset selection whose report is not sorted: the truth is always its first member."""

    inner: SubsetSelection

    @property
    def local_epsilon(self) -> float:
        return self.inner.local_epsilon

    def randomize(self, values: Any, *, simulation: Simulation | None = None) -> NDArray[Any]:
        found = self.inner.randomize(values, simulation=simulation).astype(np.int64)
        truth = np.asarray(values)[:, None]
        return np.where(
            (found == truth).any(axis=1, keepdims=True), np.sort(found * 2 - (found == truth) * 1000), found * 2
        )


@dataclass(frozen=True)
class Numbered:
    """Randomized response that now and then sends the truth under a number of its own: no ε₀ at all."""

    local_epsilon: float

    def randomize(self, values: Any, *, simulation: Simulation | None = None) -> NDArray[Any]:
        assert simulation is not None
        inner = RandomizedResponse(categories=50, local_epsilon=self.local_epsilon)
        found = inner.randomize(values, simulation=simulation).astype(np.int64)
        return np.where(simulation.below(300, len(found)) == 0, 1000 + np.asarray(values), found)


@dataclass(frozen=True)
class ThinNoise:
    """Laplace noise in floats, of a scale that is too small by a fifth."""

    local_epsilon: float

    def randomize(self, values: Any, *, simulation: Simulation | None = None) -> NDArray[Any]:
        assert simulation is not None
        uniform = (simulation.words(len(values)).astype(np.float64) + 0.5) / 2.0**64 - 0.5
        return np.asarray(values) - 0.8 / self.local_epsilon * np.sign(uniform) * np.log1p(-2 * abs(uniform))


@dataclass(frozen=True)
class Talkative:
    """Randomized response in words, of a length that tells the truth a little."""

    local_epsilon: float

    def randomize(self, values: Any, *, simulation: Simulation | None = None) -> list[Any]:
        inner = RandomizedResponse(categories=4, local_epsilon=self.local_epsilon)
        answers = inner.randomize(values, simulation=simulation).tolist()
        return [[answer] * (2 if answer == truth == 1 else 1) for answer, truth in zip(answers, values, strict=True)]


_FAULTY: list[tuple[Any, float]] = [
    (DrawsFromAll(10, 3, 1.0), 1.1),
    (DrawsFromAll(40, 17, 0.5), 1.0),
    (Claims(RandomizedResponse(categories=4, local_epsilon=1.3), 1.0), 1.1),
    (Claims(RandomizedResponse(categories=20, local_epsilon=2.3), 2.0), 2.02),
    (Claims(MECHANISMS["hadamard-response"](categories=20, local_epsilon=1.3), 1.0), 1.1),
    (Claims(MECHANISMS["projective-geometry-response"](categories=30, local_epsilon=1.3), 1.0), 1.02),
    (Claims(MECHANISMS["local-hashing"](categories=20, local_epsilon=1.3), 1.0), 1.02),
    (Claims(UnaryEncoding(categories=20, local_epsilon=1.3), 1.0), 1.1),
    (Claims(Rappor(categories=16, local_epsilon=2.0), 1.0), 1.6),
    (Claims(Rappor(categories=200, local_epsilon=2.0), 1.0), 1.6),
    (TruthFirst(SubsetSelection(categories=10, local_epsilon=1.0, size=3)), 3.0),
    (Numbered(1.0), 3.0),
    (ThinNoise(1.0), 1.1),
    (Talkative(1.0), 3.0),
]


@pytest.mark.slow
@pytest.mark.parametrize(("faulty", "least"), _FAULTY, ids=lambda case: type(case).__name__)
def test_planted_faults_are_caught(faulty: Any, least: float) -> None:
    """With the confidence of the honest audits: what passes them is not passed for want of evidence."""
    trials = 20_000 if isinstance(faulty, Talkative) else 400_000
    found = audit(faulty, trials=trials, confidence=_CONFIDENCE, simulation=Simulation(seed=2))
    assert not found.passed
    assert found.lower > max(least, found.claimed)
    assert "VIOLATION" in repr(found)


@pytest.mark.slow
@pytest.mark.parametrize("trials", [1, 2, 10, 1000, 250_000])
@pytest.mark.parametrize("risk", [0.05, 1e-3, 1e-10])
def test_limits_are_clopper_and_pearsons(trials: int, risk: float) -> None:
    for successes in sorted({0, 1, 5, trials // 3, trials - 1, trials} & set(range(trials + 1))):
        low = float(beta.ppf(risk, successes, trials - successes + 1)) if successes else 0.0
        high = float(beta.isf(risk, successes + 1, trials - successes)) if successes < trials else 1.0
        assert probability_above(successes, trials, risk) == pytest.approx(low, rel=1e-7, abs=1e-300)
        assert probability_below(successes, trials, risk) == pytest.approx(high, rel=1e-7)
        assert probability_above(successes, trials, risk) <= low * (1 + 1e-9)
        assert probability_below(successes, trials, risk) >= high * (1 - 1e-9)


def test_an_audit_says_what_it_saw() -> None:
    made = RandomizedResponse(categories=4, local_epsilon=1)
    found = audit(made, trials=1e4, simulation=Simulation(seed=1))
    assert found == audit(made, trials=10_000, simulation=Simulation(seed=1))
    assert isinstance(found, Audit)
    assert (found.trials, found.confidence, found.claimed) == (10_000, 0.999, made.local_epsilon)
    assert "support" in found.event
    facts = json.loads(json.dumps(found.to_dict()))
    assert facts["passed"] is True
    assert facts["mechanism"] == made.to_dict()
    assert (facts["lower"], facts["event"], facts["first"], facts["second"]) == (found.lower, found.event, 0, 1)
    assert "\n" not in repr(found)
    same = audit(made, trials=10_000, first=2, second=2)
    assert same.lower < 0.3
    assert audit(made, trials=10_000).passed  # with the coins of the operating system


def test_audits_that_make_no_sense() -> None:
    made = RandomizedResponse(categories=4, local_epsilon=1)
    for arguments in ({"trials": 10}, {"trials": 1.5}, {"confidence": 0}, {"confidence": 1}, {"first": 4}):
        with pytest.raises(ParameterError):
            audit(made, **arguments)
    things: list[Any] = [7, shoal.Gaussian(sigma=1), RandomizedResponse]
    for thing in things:
        with pytest.raises(ParameterError):
            audit(thing)


def run(command: str) -> Any:
    return app(command.split(), exit_on_error=False, print_error=False, result_action="return_value")


@pytest.mark.slow
def test_the_verb(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    line = "audit --mechanism hadamard-response --categories 8 --local-epsilon 1 --trials 1e4"
    assert run(line) == 0
    out = capsys.readouterr().out
    assert out.startswith("passed: ε₀ ≥ ")
    assert "found no violation for these two inputs; they do not prove the claim" in out
    assert run(f"{line} --json --first 2 --second 7") == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["passed"], facts["first"], facts["second"], facts["trials"]) == (True, 2, 7, 10_000)
    assert run("audit --mechanism laplace --local-epsilon 1 --trials 1e4") == 0
    for wrong in (
        "audit --mechanism nothing --local-epsilon 1",
        "audit --mechanism rappor --local-epsilon 1",
        "audit --mechanism laplace --categories 4 --local-epsilon 1",
        f"{line} --second 8",
    ):
        with pytest.raises(ParameterError):
            run(wrong)
    capsys.readouterr()
    monkeypatch.setattr(
        shoal.cli.verbs.audit, "randomizer_of", lambda *_, **__: Claims(Rappor(categories=8, local_epsilon=4), 1.0)
    )
    assert run(line) == 1
    assert capsys.readouterr().out.startswith("VIOLATION")


# Shuffled runs: the histogram of the reports is all that anybody sees.

_REPORTS = 4
_RUNS = 60_000
_SHARES = (0.0, 0.3, 0.6, 0.9)
_MOST_BOUNDS = 2 * 9 * 2 * 3 * len(_SHARES)


def histograms(made: Categorical, people: list[int], runs: int, simulation: Simulation) -> list[bytes]:
    """Return what a shuffler puts out, run by run: the reports of these people, sorted."""
    drawn = made.randomize(np.tile(people, runs), simulation=simulation)
    flat = np.ascontiguousarray(drawn).view(np.uint8).reshape(runs * len(people), -1)
    rows = np.sort(flat.view(np.dtype((np.void, flat.shape[1]))).reshape(runs, len(people)), axis=1)
    return [row.tobytes() for row in rows]


def least_deltas(made: Categorical, one: list[int], two: list[int], epsilons: list[float], seed: int) -> list[float]:
    """Return lower bounds on δ at each ε: one half of the runs chooses the event, the other judges it."""
    simulation = Simulation(seed=seed)
    first, second = (histograms(made, people, _RUNS, simulation) for people in (one, two))
    _, labels = np.unique(first + second, return_inverse=True)
    sides = labels[:_RUNS], labels[_RUNS:]
    size = labels.max() + 1
    chosen, judged = (
        [np.bincount(side[part], minlength=size) for side in sides]
        for part in (slice(0, _RUNS // 2), slice(_RUNS // 2, None))
    )
    risk = _FALSE_ALARM / 2 / _MOST_BOUNDS / 2
    found = []
    for epsilon in epsilons:
        event = chosen[0] > math.exp(epsilon) * chosen[1]
        more, less = (int(count[event].sum()) for count in judged)
        low, high = probability_above(more, _RUNS // 2, risk), probability_below(less, _RUNS // 2, risk)
        found.append(low - math.exp(epsilon) * high)
    return found


def neighbours(categories: int) -> list[tuple[list[int], list[int]]]:
    """Return datasets that differ in one person, the others all alike or all different."""
    rest = [[1] * (_REPORTS - 1), [2 % categories] * (_REPORTS - 1), [x % categories for x in range(_REPORTS - 1)]]
    return [([0, *others], [1, *others]) for others in rest]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "local_epsilon"), representative(product(MECHANISMS, (1.0, 2.5)), len(MECHANISMS)))
def test_shuffled_runs_never_contradict_the_guarantee(name: str, local_epsilon: float) -> None:
    small: dict[str, dict[str, int]] = {
        "local-hashing": {"buckets": 3},
        "private-independent-rappor": {"order": 3, "window": 1},
        "projective-geometry-response": {"order": 2, "dimension": 2, "blocks": 1},
        "subset-selection": {"size": 1},
    }
    made = MECHANISMS[name](categories=3, local_epsilon=local_epsilon, **small.get(name, {}))
    curve = shoal.amplify(made, reports=_REPORTS)
    epsilons = [share * local_epsilon for share in _SHARES]
    promised = [float(curve.delta(epsilon)) for epsilon in epsilons]
    best = [-1.0] * len(epsilons)
    for seed, (one, two) in enumerate(neighbours(3)):
        for pair in ((one, two), (two, one)):
            seen = least_deltas(made, *pair, epsilons, seed)
            assert all(bound <= most for bound, most in zip(seen, promised, strict=True))
            best = [max(pair) for pair in zip(best, seen, strict=True)]
    assert best[0] > 0.3 * promised[0]  # the runs come near, so that a wrong promise would be seen


@pytest.mark.slow
@pytest.mark.parametrize(
    "wrong",
    [
        shoal.amplify(RandomizedResponse(categories=3, local_epsilon=1.8), reports=_REPORTS),
        shoal.amplify(RandomizedResponse(categories=3, local_epsilon=2.5), reports=3 * _REPORTS),
        shoal.amplify(RandomizedResponse(categories=2, local_epsilon=2.5), reports=2 * _REPORTS),
    ],
    ids=["smaller ε₀", "more reports", "fewer categories"],
)
def test_a_guarantee_that_is_too_small_is_caught(wrong: shoal.PrivacyCurve) -> None:
    made = RandomizedResponse(categories=3, local_epsilon=2.5)
    epsilons = [share * 2.5 for share in _SHARES]
    seen = [
        bound > wrong.delta(epsilon)
        for pair in neighbours(3)
        for bound, epsilon in zip(least_deltas(made, *pair, epsilons, 5), epsilons, strict=True)
    ]
    assert any(seen)


_RESPONSE = shoal.RandomizedResponse(categories=3, local_epsilon=6)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mechanism", "people", "delta"),
    [
        (shoal.Covered(categories=5, fill=0.5), 100, 1e-3),
        (shoal.Covered(categories=3, slots=2, fill=1), 10, 1e-2),
        (shoal.Covered(categories=3, fill=1, response=_RESPONSE), 20, 1e-3),
        (shoal.Dummies(categories=4, epsilon=1, limit=27), 3, 1e-6),
        (shoal.Dummies(categories=4, epsilon=2, limit=4), 1, 0.05),
        pytest.param(
            shoal.SplitAndMix.fitted(epsilon=1, delta=1e-3, honest=20, people=20),
            20,
            1e-3,
            marks=pytest.mark.exhaustive,
        ),
    ],
)
def test_what_holds_passes_and_more_than_half_of_it_is_found(
    mechanism: shoal.Covered | shoal.Dummies | shoal.SplitAndMix, people: int, delta: float
) -> None:
    """The bound is wrong once in a thousand runs, and the seed is fixed."""
    result = shoal.audit(mechanism, people=people, delta=delta, trials=100_000, simulation=Simulation(seed=3))
    assert isinstance(result, ProtocolAudit) and result.passed
    assert result.claimed / 2 < result.lower <= result.claimed < np.inf
    assert "central ε ≥" in repr(result) and result.to_dict()["people"] == people


@dataclass(frozen=True, kw_only=True)
class _Absent(shoal.Covered):
    """Covers that promise all slots, and leave half of them empty."""

    def report(self, values: NDArray[np.int64], coins: Coins) -> Reports:
        bundles = super().report(values, coins)
        bundles[::2, 1:] = self.null
        return bundles


@dataclass(frozen=True, kw_only=True)
class _Twice(shoal.Dummies):
    """Dummies whose noise is half of what it should be: the mean of two draws over the same messages has less."""

    def noise(self, coins: Coins, count: int) -> NDArray[np.int64]:
        return super().noise(coins, count) // 2


@dataclass(frozen=True, kw_only=True)
class _Missing(shoal.SplitAndMix):
    """Shares of noise for twice as many people as there are."""

    def noise(self, coins: Coins, count: int) -> NDArray[np.int64]:
        noise = super().noise(coins, count)
        noise[1::2] = 0
        return noise


@pytest.mark.slow
def test_missing_shares_of_noise_are_found() -> None:
    fitted = shoal.SplitAndMix.fitted(epsilon=1, delta=1e-3, honest=20, people=20)
    fields = {each.name: getattr(fitted, each.name) for each in dataclasses.fields(fitted) if each.init}
    result = shoal.audit(_Missing(**fields), people=20, delta=1e-3, trials=20_000, simulation=Simulation(seed=4))
    assert not result.passed


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", [_Absent(categories=2, fill=0.99), _Twice(categories=2, epsilon=1, limit=30)])
def test_planted_faults_are_found(mechanism: shoal.Covered | shoal.Dummies) -> None:
    result = shoal.audit(mechanism, people=60, delta=1e-3, trials=200_000, simulation=Simulation(seed=4))
    assert not result.passed and "VIOLATION" in repr(result)


def test_bad_arguments_are_refused() -> None:
    made = shoal.Covered(categories=3, fill=0.5)
    for arguments in ({"first": 1, "second": 1}, {"first": 7}, {"people": 0}, {"delta": 2}):
        with pytest.raises(shoal.ParameterError):
            shoal.audit(made, trials=2000, **arguments)  # type: ignore[arg-type]
