"""calibrate and largest_private for a given mechanism: what they answer holds, and nothing larger would."""

import json
import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import shoal
from shoal.calibration import largest_private
from shoal.calibration.guess import likely_log_delta, telling
from shoal.calibration.largest import largest_safe, last_safe, likely_private, varied
from shoal.calibration.target import ROOM, Target
from shoal.composition.budget import Budget
from shoal.errors import ParameterError, UnreachableError

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
        (shoal.Gaussian(deviation=2.0), "calibrate a mechanism with an ε₀"),
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
    found = shoal.calibrate(mechanism, epsilon=epsilon, delta=1e-6, reports=reports, times=times)
    assert (found.reports, found.times, found.total.rounds) == (reports, times, times)
    assert found.epsilon == _together(mechanism, found.local_epsilon, reports, times) <= epsilon
    assert found.total.epsilon(1e-6) == found.epsilon
    assert _together(mechanism, found.local_epsilon * (1 + 1e-6), reports, times) > epsilon * (1 - ROOM)
    assert _together(mechanism, found.local_epsilon, reports, times + 1) > epsilon


@pytest.mark.slow
@pytest.mark.parametrize(("mechanism", "reports", "times", "epsilon"), ROUNDS)
def test_fewest_reports_and_most_rounds(mechanism: Mechanism, reports: int, times: int, epsilon: float) -> None:
    local = shoal.calibrate(mechanism, epsilon=epsilon, delta=1e-6, reports=reports, times=times).local_epsilon
    asked: dict[str, Any] = {"local_epsilon": local} if mechanism is None else {}
    given = None if mechanism is None else replace(mechanism, local_epsilon=local)
    fewest = shoal.calibrate(given, **asked, epsilon=epsilon, delta=1e-6, times=times)
    assert reports * (1 - 1e-5) - 1 <= fewest.reports <= reports
    assert _together(mechanism, local, fewest.reports, times) <= epsilon * (1 - ROOM)
    assert _together(mechanism, local, fewest.reports - 1, times) > epsilon * (1 - ROOM)
    most = shoal.calibrate(given, **asked, epsilon=epsilon, delta=1e-6, reports=reports, times=None)
    assert most.times == times
    assert _together(mechanism, local, reports, most.times) <= epsilon * (1 - ROOM)
    assert _together(mechanism, local, reports, most.times + 1) > epsilon * (1 - ROOM)


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
    found = shoal.calibrate(mechanism, epsilon=epsilon, delta=1e-6, reports=reports, times=times)
    assert found.total.certify(delta=1e-6).epsilon <= epsilon


@pytest.mark.slow
@pytest.mark.parametrize("planned", [True, False])
def test_what_is_left_of_a_ledger(planned: bool) -> None:
    before = shoal.amplify(local_epsilon=2, reports=100_000)
    ledger = shoal.Ledger()
    with ledger.budget(before, epsilon=0.5, delta=1e-6, times=20, planned=planned):
        pass
    target = Target(Budget(0.5, 1e-6, planned), ((before, 20),), ROOM if planned else 0.0)

    def fits(curve: shoal.PrivacyCurve, times: int) -> bool:
        return target.reached(curve, times) <= target.computed

    found = shoal.calibrate(ledger=ledger, reports=100_000, times=10)
    assert found.spent > 0 and found.epsilon <= 0.5 and found.target.epsilon == 0.5
    assert fits(found.curve, 10) and ledger.affords(found.curve, epsilon=0.5, delta=1e-6, times=10, planned=planned)
    assert not fits(found.curve, 11)
    larger = shoal.amplify(local_epsilon=found.local_epsilon * (1 + 1e-6), reports=100_000)
    assert not fits(larger, 10)
    most = shoal.calibrate(ledger=ledger, reports=100_000, local_epsilon=2, times=None).times
    assert fits(before, most)
    assert not fits(before, most + 1)
    fewest = shoal.calibrate(ledger=ledger, local_epsilon=2, times=10).reports
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
    with pytest.raises(shoal.BudgetError, match=r"has the budget of epsilon=0.05.* asked for was epsilon=1"):
        shoal.calibrate(ledger=ledger, reports=100, epsilon=1)
    assert shoal.calibrate(ledger=ledger, reports=1000, epsilon=0.05, delta=1e-6).epsilon <= 0.05
    ledger.record(curve, times=9)
    with pytest.raises(shoal.BudgetError, match="nothing is left for another round"):
        shoal.calibrate(ledger=ledger, reports=100)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"reports": 100}, "how many rounds there may be"),
        ({"local_epsilon": 1}, "how many rounds there may be"),
        ({"reports": 100, "local_epsilon": 1, "times": 3}, "or both, with times=None"),
        ({"reports": 100, "times": 0}, "times must be at least 1"),
        ({"reports": 100, "times": 1.5}, "times must be a whole number"),
        ({"reports": 100, "local_epsilon": 5, "epsilon": 0.01}, "a single round of 100 reports .* has more than"),
        ({"reports": 100, "local_epsilon": 1, "delta": None}, "give the central guarantee that must hold"),
    ],
)
def test_what_is_asked_for_must_be_clear(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises((ParameterError, UnreachableError), match=said):
        shoal.calibrate(**{"epsilon": 1.0, "delta": 1e-6, "times": None, **arguments})


@pytest.mark.slow
def test_errors_of_one_round_and_of_all() -> None:
    survey = shoal.RandomizedResponse(categories=4, local_epsilon=1)
    found = shoal.calibrate(survey, epsilon=0.2, delta=1e-6, reports=100_000, times=4)
    assert found.error == pytest.approx(math.sqrt(found.randomizer.variance(reports=100_000).sum()), rel=1e-12)
    assert found.error is not None and found.average_error == found.error / 2
    assert shoal.calibrate(epsilon=1, delta=1e-6, reports=1000).error is None
    facts = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert facts["times"] == facts["rounds"] == 4 and facts["epsilon"] == found.epsilon
    assert facts["one_round"]["epsilon"] == found.curve.epsilon(1e-6)
    assert "times=4" in repr(found)


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
