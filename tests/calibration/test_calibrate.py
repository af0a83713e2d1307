"""Calibration: what it answers holds, and nothing larger would; ε of each further round is what compose says."""

import json
import math
from dataclasses import replace
from datetime import date, timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import shoal
from shoal.calibration import largest_private
from shoal.calibration.largest import largest_safe, last_safe, likely_private, varied
from shoal.calibration.spending import Spending, Stretch
from shoal.calibration.target import ROOM, Target, likely_log_delta, telling
from shoal.composition.budget import Budget
from shoal.errors import ParameterError, UnreachableError
from tests.exhaustive import EXHAUSTIVE, representative

Mechanism = Any

MECHANISMS: list[Mechanism] = [
    shoal.RandomizedResponse(categories=2, local_epsilon=1),
    shoal.RandomizedResponse(categories=50, local_epsilon=2),
    shoal.HadamardResponse(categories=50, local_epsilon=1, blocks=4),
    shoal.RecursiveHadamardResponse(categories=50, local_epsilon=1, blocks=1),
    shoal.ProjectiveGeometryResponse(categories=20, local_epsilon=1, order=3, dimension=3, blocks=2),
    shoal.PrivateIndependentRappor(categories=20, local_epsilon=1, order=11, window=2),
    shoal.LocalHashing(categories=20, local_epsilon=1, buckets=5),
    shoal.SubsetSelection(categories=20, local_epsilon=1, size=4),
    shoal.UnaryEncoding(categories=20, local_epsilon=1),
    shoal.Rappor(categories=20, local_epsilon=1),
    shoal.OneBitMean(local_epsilon=1),
]
TARGETS = [(0.1, 1e-6, 10_000), (0.03, 1e-8, 1_000_000)]


def name(mechanism: Mechanism) -> str:
    return type(mechanism).__name__


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", MECHANISMS, ids=name)
@pytest.mark.parametrize(("epsilon", "delta", "reports"), TARGETS)
def test_largest_local_epsilon(mechanism: Mechanism, epsilon: float, delta: float, reports: int) -> None:
    found = shoal.calibrate(mechanism, epsilon=epsilon, delta=delta, reports=reports)
    made = found.randomizer
    assert type(made) is type(mechanism)
    assert replace(made, local_epsilon=mechanism.local_epsilon) == mechanism
    assert made.local_epsilon == found.local_epsilon and found.reports == reports
    again = shoal.amplify(made, reports=reports)
    assert again.delta(epsilon) <= delta
    assert found.epsilon <= epsilon and found.curve.delta(epsilon) <= delta
    assert found.epsilon == pytest.approx(epsilon * (1 - ROOM), rel=1e-5)
    more = replace(mechanism, local_epsilon=found.local_epsilon * (1 + 1e-6))
    assert shoal.amplify(more, reports=reports).delta(epsilon * (1 - ROOM)) > delta


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", [MECHANISMS[0], MECHANISMS[1], MECHANISMS[7], MECHANISMS[10]], ids=name)
@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-6), (0.03, 1e-8)])
def test_fewest_reports(mechanism: Mechanism, epsilon: float, delta: float) -> None:
    found = shoal.calibrate(mechanism, epsilon=epsilon, delta=delta)
    assert found.randomizer == mechanism and found.local_epsilon == mechanism.local_epsilon
    assert found.epsilon <= epsilon
    assert shoal.amplify(mechanism, reports=found.reports).epsilon(delta) <= epsilon * (1 - ROOM)
    assert shoal.amplify(mechanism, reports=found.reports - 1).epsilon(delta) > epsilon * (1 - ROOM)


@pytest.mark.slow
def test_both_ways_agree() -> None:
    mechanism = shoal.RandomizedResponse(categories=50, local_epsilon=3)
    fewest = shoal.calibrate(mechanism, epsilon=0.2, delta=1e-6).reports
    largest = shoal.calibrate(mechanism, epsilon=0.2, delta=1e-6, reports=fewest).local_epsilon
    assert mechanism.local_epsilon <= largest <= mechanism.local_epsilon * (1 + 1e-3)


@pytest.mark.slow
def test_its_own_bound_allows_more_than_that_for_any_randomizer() -> None:
    anybody = shoal.calibrate(epsilon=0.1, delta=1e-6, reports=10_000).local_epsilon
    for mechanism in MECHANISMS[:10]:
        assert shoal.calibrate(mechanism, epsilon=0.1, delta=1e-6, reports=10_000).local_epsilon >= anybody * (1 - 1e-6)


@pytest.mark.slow
def test_under_another_bound() -> None:
    mechanism = shoal.RandomizedResponse(categories=50, local_epsilon=1)
    clones = shoal.calibrate(mechanism, epsilon=0.1, delta=1e-6, reports=10_000, bound="clones")
    assert clones.curve.bound == "clones"
    assert shoal.amplify(clones.randomizer, reports=10_000, bound="clones").delta(0.1) <= 1e-6
    assert clones.local_epsilon < shoal.calibrate(mechanism, epsilon=0.1, delta=1e-6, reports=10_000).local_epsilon


def test_one_report_has_only_what_it_has_alone() -> None:
    mechanism = shoal.RandomizedResponse(categories=4, local_epsilon=1)
    found = shoal.calibrate(mechanism, epsilon=0.5, delta=1e-6, reports=1)
    assert shoal.amplify(found.randomizer, reports=1).delta(0.5) <= 1e-6
    assert found.local_epsilon == pytest.approx(0.5, rel=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", [MECHANISMS[1], MECHANISMS[4]], ids=name)
def test_largest_private_rises_with_what_is_allowed(mechanism: Mechanism) -> None:
    def largest(epsilon: float, delta: float, reports: int) -> float:
        made = largest_private(mechanism, reports=reports, epsilon=epsilon, delta=delta, tolerance=1e-7)
        assert shoal.amplify(made, reports=reports).delta(epsilon) <= delta
        return float(made.local_epsilon)

    epsilons = [largest(epsilon, 1e-6, 10_000) for epsilon in (0.01, 0.02, 0.05, 0.1, 0.3)]
    deltas = [largest(0.05, delta, 10_000) for delta in (1e-12, 1e-9, 1e-6, 1e-3)]
    counts = [largest(0.05, 1e-6, reports) for reports in (10, 1_000, 100_000, 10_000_000)]
    for rising in (epsilons, deltas, counts):
        assert rising == sorted(set(rising))


@pytest.mark.slow
@pytest.mark.parametrize("tolerance", [1e-3, 1e-6, 1e-9])
def test_largest_private_is_never_above(tolerance: float) -> None:
    mechanism = shoal.RandomizedResponse(categories=20, local_epsilon=1)
    exact = largest_private(mechanism, reports=10_000, epsilon=0.1, delta=1e-6, tolerance=1e-11).local_epsilon
    rough = largest_private(mechanism, reports=10_000, epsilon=0.1, delta=1e-6, tolerance=tolerance).local_epsilon
    assert exact * (1 - 2 * tolerance) <= rough <= exact * (1 + 2e-11)


@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        ({"reports": 100, "local_epsilon": 1}, ParameterError, "no other local_epsilon"),
        ({"local_epsilon": 1}, ParameterError, "no other local_epsilon"),
        ({"reports": 0}, ParameterError, "reports must be at least 1"),
        ({"reports": 100, "epsilon": 0}, ParameterError, "epsilon must be greater than 0"),
        ({"reports": 100, "delta": 1}, ParameterError, "delta must be greater than 0 and less than 1"),
        ({"reports": 100, "bound": "best"}, ParameterError, "bound must be one of"),
    ],
)
def test_bad_arguments(arguments: dict[str, Any], error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        shoal.calibrate(MECHANISMS[0], **{"epsilon": 0.1, "delta": 1e-6, **arguments})


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (shoal.Gaussian(sigma=2.0), "calibrate a mechanism with an ε₀"),
        ("randomized-response", "randomizer must be a description"),
        (3, "randomizer must be a description"),
    ],
)
def test_what_has_no_local_epsilon(wrong: Mechanism, said: str) -> None:
    with pytest.raises(ParameterError, match=said):
        shoal.calibrate(wrong, epsilon=0.1, delta=1e-6, reports=100)


def test_no_number_of_reports_is_enough() -> None:
    mechanism = shoal.RandomizedResponse(categories=2, local_epsilon=60)
    with pytest.raises(UnreachableError, match="no number of reports"):
        shoal.calibrate(mechanism, epsilon=0.1, delta=1e-6)


ROUNDS: list[tuple[Mechanism, int, int, float]] = [
    (None, 100_000, 50, 1.0),
    (MECHANISMS[1], 20_000, 30, 1.0),
    (MECHANISMS[7], 50_000, 10, 0.3),
    (MECHANISMS[10], 10_000, 365, 2.0),
]


def _curve(mechanism: Mechanism, local_epsilon: float, reports: int) -> shoal.PrivacyCurve:
    if mechanism is None:
        return shoal.amplify(local_epsilon=local_epsilon, reports=reports)
    return shoal.amplify(replace(mechanism, local_epsilon=local_epsilon), reports=reports)


def _together(mechanism: Mechanism, local_epsilon: float, reports: int, times: int) -> float:
    """Return what `compose` says, of which calibration may not be wrong."""
    return float(shoal.compose([(_curve(mechanism, local_epsilon, reports), times)]).epsilon(1e-6))


@pytest.mark.slow
@pytest.mark.parametrize(("mechanism", "reports", "times", "epsilon"), ROUNDS)
def test_largest_local_epsilon_of_many_rounds(mechanism: Mechanism, reports: int, times: int, epsilon: float) -> None:
    found = shoal.calibrate(mechanism, epsilon=epsilon, delta=1e-6, reports=reports, rounds=times)
    assert (found.reports, found.rounds, found.total.rounds) == (reports, times, times)
    assert found.epsilon == _together(mechanism, found.local_epsilon, reports, times) <= epsilon
    assert found.total.epsilon(1e-6) == found.epsilon
    assert _together(mechanism, found.local_epsilon * (1 + 1e-6), reports, times) > epsilon * (1 - ROOM)
    assert _together(mechanism, found.local_epsilon, reports, times + 1) > epsilon


@pytest.mark.slow
@pytest.mark.parametrize(("mechanism", "reports", "times", "epsilon"), ROUNDS)
def test_fewest_reports_and_most_rounds(mechanism: Mechanism, reports: int, times: int, epsilon: float) -> None:
    local = shoal.calibrate(mechanism, epsilon=epsilon, delta=1e-6, reports=reports, rounds=times).local_epsilon
    asked: dict[str, Any] = {"local_epsilon": local} if mechanism is None else {}
    given = None if mechanism is None else replace(mechanism, local_epsilon=local)
    fewest = shoal.calibrate(given, **asked, epsilon=epsilon, delta=1e-6, rounds=times)
    assert reports * (1 - 1e-5) - 1 <= fewest.reports <= reports
    assert _together(mechanism, local, fewest.reports, times) <= epsilon * (1 - ROOM)
    assert _together(mechanism, local, fewest.reports - 1, times) > epsilon * (1 - ROOM)
    most = shoal.calibrate(given, **asked, epsilon=epsilon, delta=1e-6, reports=reports, rounds=None)
    assert most.rounds == times
    assert _together(mechanism, local, reports, most.rounds) <= epsilon * (1 - ROOM)
    assert _together(mechanism, local, reports, most.rounds + 1) > epsilon * (1 - ROOM)


def test_room_is_all_that_a_certificate_may_take() -> None:
    certificate = pytest.importorskip("shoal.proofs.certificate")
    assert (1 - ROOM) * (1 + certificate._MOST_MORE) <= 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mechanism", "reports", "times", "epsilon"),
    [
        (None, 1_000, 7, 0.1),
        (None, 300_000, 52, 0.1),  # 3.2e-4 of the target without room
        (MECHANISMS[1], 300_000, 1, 0.1),
        (MECHANISMS[1], 300_000, 52, 1.0),
        (MECHANISMS[2], 1_000, 52, 0.1),
        pytest.param(MECHANISMS[7], 300_000, 7, 0.1, marks=pytest.mark.exhaustive),
        (MECHANISMS[8], 1_000, 1, 1.0),
        (MECHANISMS[10], 1_000, 1, 1.0),
        (shoal.Laplace(local_epsilon=1), 300_000, 1, 0.1),  # 3.2e-4
        pytest.param(shoal.Laplace(local_epsilon=1), 1_000, 52, 1.0, marks=pytest.mark.exhaustive),
    ],
)
def test_what_is_proved_is_within_the_target(mechanism: Mechanism, reports: int, times: int, epsilon: float) -> None:
    """Without room, all but one of these proofs end above the target."""
    pytest.importorskip("flint")
    found = shoal.calibrate(mechanism, epsilon=epsilon, delta=1e-6, reports=reports, rounds=times)
    assert found.total.certify(delta=1e-6).epsilon <= epsilon


@pytest.mark.slow
@pytest.mark.parametrize("planned", [True, False])
def test_what_is_left_of_a_ledger(planned: bool) -> None:
    before = shoal.amplify(local_epsilon=2, reports=100_000)
    ledger = shoal.Ledger()
    with ledger.budget(before, epsilon=0.5, delta=1e-6, rounds=20, planned=planned):
        pass
    target = Target(Budget(0.5, 1e-6, planned), ((before, 20),), ROOM if planned else 0.0)

    def fits(curve: shoal.PrivacyCurve, times: int) -> bool:
        return target.reached(curve, times) <= target.computed

    found = shoal.calibrate(ledger=ledger, reports=100_000, rounds=10)
    assert found.spent > 0 and found.epsilon <= 0.5 and found.target.epsilon == 0.5
    assert fits(found.curve, 10) and ledger.affords(found.curve, epsilon=0.5, delta=1e-6, rounds=10, planned=planned)
    assert not fits(found.curve, 11)
    larger = shoal.amplify(local_epsilon=found.local_epsilon * (1 + 1e-6), reports=100_000)
    assert not fits(larger, 10)
    most = shoal.calibrate(ledger=ledger, reports=100_000, local_epsilon=2, rounds=None).rounds
    assert fits(before, most)
    assert not fits(before, most + 1)
    fewest = shoal.calibrate(ledger=ledger, local_epsilon=2, rounds=10).reports
    assert fits(shoal.amplify(local_epsilon=2, reports=fewest), 10)
    assert not fits(shoal.amplify(local_epsilon=2, reports=fewest - 1), 10)


@pytest.mark.slow
def test_ledgers_that_cannot_be_calibrated_for() -> None:
    curve, ledger = shoal.amplify(local_epsilon=1, reports=10_000), shoal.Ledger()
    with pytest.raises(ParameterError, match="this ledger has no budget yet"):
        shoal.calibrate(ledger=ledger, reports=100)
    with pytest.raises(ParameterError, match="ledger must be a Ledger"):
        shoal.calibrate(ledger="telemetry.json", reports=100)  # type: ignore[arg-type]
    with ledger.budget(curve, epsilon=0.05, delta=1e-6, planned=True):
        pass
    with pytest.raises(shoal.errors.BudgetError, match=r"has the budget of epsilon=0.05.* asked for was epsilon=1"):
        shoal.calibrate(ledger=ledger, reports=100, epsilon=1)
    assert shoal.calibrate(ledger=ledger, reports=1000, epsilon=0.05, delta=1e-6).epsilon <= 0.05
    ledger.record(curve, rounds=9)
    with pytest.raises(shoal.errors.BudgetError, match="nothing is left for another round"):
        shoal.calibrate(ledger=ledger, reports=100)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"reports": 100}, "how many rounds there may be"),
        ({"local_epsilon": 1}, "how many rounds there may be"),
        ({"reports": 100, "local_epsilon": 1, "rounds": 3}, "or both, with rounds=None"),
        ({"reports": 100, "rounds": 0}, "rounds must be at least 1"),
        ({"reports": 100, "rounds": 1.5}, "rounds must be a whole number"),
        ({"reports": 100, "local_epsilon": 5, "epsilon": 0.01}, "a single round of 100 reports .* has more than"),
        ({"reports": 100, "local_epsilon": 1, "delta": None}, "give the central guarantee that must hold"),
    ],
)
def test_what_is_asked_for_must_be_clear(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises((ParameterError, UnreachableError), match=said):
        shoal.calibrate(**{"epsilon": 1.0, "delta": 1e-6, "rounds": None, **arguments})


@pytest.mark.slow
def test_errors_of_one_round_and_of_all() -> None:
    survey = shoal.RandomizedResponse(categories=4, local_epsilon=1)
    found = shoal.calibrate(survey, epsilon=0.2, delta=1e-6, reports=100_000, rounds=4)
    assert found.error == pytest.approx(math.sqrt(found.randomizer.variance(reports=100_000).sum()), rel=1e-12)
    assert found.error is not None and found.average_error == found.error / 2
    assert shoal.calibrate(epsilon=1, delta=1e-6, reports=1000).error is None
    facts = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert facts["rounds"] == 4 and facts["epsilon"] == found.epsilon
    assert facts["one_round"]["epsilon"] == found.curve.epsilon(1e-6)
    assert "rounds=4" in repr(found)


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", MECHANISMS, ids=name)
@pytest.mark.parametrize("reports", [2, 100, 10_000, 10**8])
def test_few_exact_values_are_enough(mechanism: Mechanism, reports: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A guess says where to look: the search costs a few values of δ, and not dozens."""
    values = []
    exact = Target.excess

    def counted(self: Target, curve: shoal.PrivacyCurve, times: int = 1) -> float:
        values.append(exact(self, curve, times))
        return values[-1]

    monkeypatch.setattr(Target, "excess", counted)
    for epsilon in (0.05, 1.0):
        values.clear()
        shoal.calibrate(mechanism, epsilon=epsilon, delta=1e-6, reports=reports)
        assert 1 <= len(values) <= 6
        assert values[-1] <= 0 or min(values) <= 0
    values.clear()
    shoal.calibrate(mechanism, epsilon=0.2, delta=1e-6)
    assert 2 <= len(values) <= 6


@pytest.mark.slow
@pytest.mark.parametrize("reports", [30, 1000, 10**5, 10**9])
@pytest.mark.parametrize("epsilon", [0.1, 1.0])
def test_saddle_point_is_close_to_delta(reports: int, epsilon: float) -> None:
    """The guess is compared with the evaluator, which it shares nothing with."""
    target = Target(Budget(epsilon, 1e-6, planned=True), room=ROOM)
    for mechanism in MECHANISMS[:4]:
        if getattr(mechanism, "bit", None) is not None:  # its exact worst case is below that of its blanket
            continue
        other = varied(mechanism)
        likely = likely_private(mechanism, target, reports=reports)
        close = shoal.calibrate(mechanism, epsilon=epsilon, delta=1e-6, reports=reports).local_epsilon
        assert likely.local_epsilon == pytest.approx(close, rel=0.02)
        delta = shoal.amplify(other(close), reports=reports).delta(epsilon)
        assert likely_log_delta(telling(other(close)), reports, epsilon) == pytest.approx(math.log(delta), abs=0.5)


@pytest.mark.slow
@given(
    root=st.floats(0.01, 100),
    power=st.floats(0.2, 5),
    wrong=st.floats(-0.5, 0.5),
    slope=st.floats(-0.3, 0.3),
    tolerance=st.sampled_from([1e-3, 1e-6, 1e-9]),
)
def test_largest_safe_is_right_whatever_the_guess(
    root: float, power: float, wrong: float, slope: float, tolerance: float
) -> None:
    values = {}

    def excess(point: float) -> float:
        values[point] = power * (math.log(point) - math.log(root))
        return values[point]

    def likely(point: float) -> float:
        return power * (1 + slope) * (math.log(point) - math.log(root)) + wrong

    found = largest_safe(excess, likely, start=1.0, low=1e-3, most=1e3, tolerance=tolerance)
    assert values[found] <= 0
    assert found >= root * (1 - 2 * tolerance)
    assert len(values) <= 12


@pytest.mark.parametrize("jump", [0.3, 2.0, 700.0])
def test_largest_safe_of_a_function_that_jumps(jump: float) -> None:
    """Without a slope to go by, it halves."""

    def excess(point: float) -> float:
        return -1.0 if point <= jump else math.inf

    for likely in (math.log, lambda point: point - 1.0, lambda _: -math.inf, lambda _: math.inf):
        found = largest_safe(excess, likely, start=1.0, low=0.1, most=1e3, tolerance=1e-6)
        assert jump * (1 - 1e-6) <= found <= jump
    assert largest_safe(lambda _: -1.0, math.log, start=1.0, low=0.1, most=50.0, tolerance=1e-6) == 50.0


@given(edge=st.integers(1, 10**9), off=st.floats(0.3, 3), rising=st.booleans())
def test_last_safe_is_next_to_one_that_is_not(edge: int, off: float, rising: bool) -> None:
    sign = 1 if rising else -1
    values = {}

    def excess(count: int) -> float:
        values[count] = sign * (count - edge) / edge
        return values[count]

    found = last_safe(excess, lambda count: sign * math.log(count / edge / off), start=10, most=10**12, rising=rising)
    assert found == edge
    assert values[edge] <= 0 and (rising or edge == 1 or values[edge - 1] > 0)
    assert not rising or values[edge + 1] > 0
    assert len(values) <= 40


def test_last_safe_where_all_counts_are_alike() -> None:
    assert last_safe(lambda _: 1.0, lambda _: 1.0, start=5, most=100, rising=True) == 0
    assert last_safe(lambda _: 1.0, lambda _: 1.0, start=5, most=100, rising=False) is None
    assert last_safe(lambda _: -1.0, lambda _: -1.0, start=5, most=100, rising=True) == 100
    assert last_safe(lambda _: -1.0, lambda _: -1.0, start=5, most=100, rising=False) == 1


def test_a_bound_that_holds_for_a_small_epsilon_only() -> None:
    """Erlingsson's asks for ε₀ < 1/2: the answer is next to it, though ε = 1 would allow more."""
    found = shoal.calibrate(epsilon=1, delta=1e-4, reports=100_000, bound="erlingsson")
    assert 0.5 - 1e-8 < found.local_epsilon < 0.5
    assert found.epsilon == shoal.amplify(
        local_epsilon=found.local_epsilon, reports=100_000, bound="erlingsson"
    ).epsilon(1e-4)


DAILY = shoal.amplify(local_epsilon=2, reports=1_000_000)
WEEKLY = shoal.amplify(local_epsilon=4, reports=1_000_000)
DAY = timedelta(days=1)


def budget(epsilon: float) -> Budget:
    return Budget(epsilon, 1e-6, planned=True)


@pytest.mark.slow
def test_epsilon_of_the_first_rounds() -> None:
    spending = Spending((Stretch(DAILY, 3), Stretch(WEEKLY, 2)), 1e-6)
    assert spending.total == 5
    assert spending.rounds(2) == ((DAILY, 2),)
    assert spending.rounds(4) == ((DAILY, 3), (WEEKLY, 1))
    assert spending.rounds(9) == ((DAILY, 3), (WEEKLY, 6))
    assert spending.epsilon(2) == DAILY.repeated(2).epsilon(1e-6)
    assert spending.epsilon(4) == shoal.compose([(DAILY, 3), (WEEKLY, 1)]).epsilon(1e-6)
    assert spending.affordable is None and spending.sentence is None


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", representative([0.005, 0.03, 0.05, 0.12, 0.2], 2))
def test_budget_lasts_for_as_long_as_it_says(epsilon: float) -> None:
    stretches = (Stretch(DAILY, 7), Stretch(WEEKLY, 1), Stretch(DAILY, 7), Stretch(WEEKLY, 1))
    spending = Spending(stretches, 1e-6, budget(epsilon))
    count = spending.affordable
    assert count is not None
    assert count == 0 or spending.epsilon(count) <= epsilon
    assert spending.epsilon(count + 1) > epsilon
    first = 1 if EXHAUSTIVE else max(1, count - 8)
    assert next(number for number in range(first, 2000) if spending.epsilon(number) > epsilon) == count + 1


def test_days() -> None:
    start = date(2026, 1, 1)
    daily = Spending((Stretch(DAILY, 30, start),), 1e-6, every="day")
    assert [daily.day(count) for count in (1, 30, 31, 365)] == [
        start,
        date(2026, 1, 30),
        date(2026, 1, 31),
        date(2026, 12, 31),
    ]
    dated = (Stretch(DAILY, 1, start), Stretch(DAILY, 1, start + 7 * DAY), Stretch(WEEKLY, 1, start + 14 * DAY))
    weekly = Spending(dated, 1e-6)
    assert [weekly.day(count) for count in (1, 2, 3, 5)] == [start + 7 * DAY * weeks for weeks in (0, 1, 2, 4)]
    assert Spending((Stretch(DAILY, 5, start),), 1e-6).day(9) is None
    assert Spending((Stretch(DAILY, 5),), 1e-6).day(2) is None
    assert daily.day(10**9) is None
    with pytest.raises(ParameterError, match="must not go backwards, and 2025-12-31 comes after 2026-01-01"):
        Spending((Stretch(DAILY, 1, start), Stretch(DAILY, 1, start - DAY)), 1e-6)
    with pytest.raises(ParameterError, match="no rounds"):
        Spending((), 1e-6)


@pytest.mark.slow
def test_sentences_and_plain_values() -> None:
    start = date(2026, 1, 1)
    spending = Spending((Stretch(DAILY, 30, start),), 1e-6, budget(0.2), "day")
    lasts = "lasts for 301 rounds in all, one per day, until 2026-10-28"
    assert spending.sentence == f"ε = 0.2 at δ = 1e-06 {lasts}; one more breaks it"
    assert spending.to_dict() == {
        "budget": {"epsilon": 0.2, "delta": 1e-6, "planned": True},
        "affordable_rounds": 301,
        "last_day": "2026-10-28",
    }
    short = Spending((Stretch(WEEKLY),), 1e-6, budget(0.001))
    assert short.affordable == 0 and short.sentence is not None
    assert "is less than the first round costs" in short.sentence
    dated = (Stretch(DAILY, 1, start), Stretch(DAILY, 1, start + 7 * DAY))
    later = Spending(dated, 1e-6, budget(0.05)).sentence
    assert later is not None and "at this pace until about 2026-" in later


@pytest.mark.slow
def test_gaussian_noise_and_pure_budgets() -> None:
    noise = shoal.amplify(shoal.Gaussian(sigma=4.0), reports=100_000)
    chosen = Spending((Stretch(DAILY, 2),), 1e-6, Budget(0.1, 1e-6, planned=False))
    count = chosen.affordable
    assert count is not None and chosen.epsilon(count) <= 0.1 < chosen.epsilon(count + 1)
    pure = Spending((Stretch(DAILY, 2),), 0.0, Budget(20.0, 0.0))
    assert pure.affordable == 10
    assert Spending((Stretch(noise),), 1e-6, budget(2 * noise.epsilon(1e-6))).total == 1


@pytest.mark.slow
def test_picture() -> None:
    pytest.importorskip("matplotlib")
    stretches = (Stretch(DAILY, 30, date(2026, 1, 1)), Stretch(WEEKLY, 4, date(2026, 2, 1)))
    spending = Spending(stretches, 1e-6, budget(0.2))
    axes = spending.plot()
    done, later = axes.get_lines()[:2]
    drawn = dict(zip(done.get_xdata(), done.get_ydata(), strict=True))
    assert drawn[34] == spending.epsilon(34) and drawn[30] == spending.epsilon(30) and drawn[0] == 0
    heights = [*done.get_ydata(), *later.get_ydata()[1:]]
    assert all(after > before for before, after in pairwise(heights))
    assert max(heights) > 0.2
    texts = " ".join(text.get_text() for text in [*axes.texts, *axes.get_legend().get_texts()])
    texts += axes.get_title("left")
    assert f"spent after {spending.affordable:,} rounds" in texts and "ε = 0.095" in texts and texts.count("δ = ") == 1
    for words in (
        "any randomizer, ε₀ = 2 to 4, n = 1,000,000, δ = 1e-06",
        "if continued at the same rate",
        "budget ε = 0.2",
    ):
        assert words in texts
    survey = shoal.amplify(shoal.RandomizedResponse(categories=20, local_epsilon=2), reports=50_000)
    alone = Spending((Stretch(survey, 9),), 1e-6).plot()
    assert "randomized response over 20 categories, ε₀ = 2, n = 50,000, δ = 1e-06" in alone.get_title("left")
    assert math.isclose(alone.get_xlim()[1], 9 * 1.02)


@pytest.mark.parametrize(("local_epsilon", "rounds"), [(50.0, 0), (5.0, 2)])
def test_a_budget_without_delta_is_kept_by_local_guarantees_alone(local_epsilon: float, rounds: int) -> None:
    curve = shoal.amplify(local_epsilon=local_epsilon, reports=1000, bound="clones")
    assert Spending((Stretch(curve),), 0.0, Budget(10.0, 0.0, planned=True)).affordable == rounds
