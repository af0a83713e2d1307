"""calibrate and largest_private for a given mechanism: what they answer holds, and nothing larger would."""

from dataclasses import replace
from typing import Any

import pytest

import shoal
from shoal.calibration import largest_private
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
    assert found.epsilon == pytest.approx(epsilon, rel=1e-5)
    more = replace(mechanism, local_epsilon=found.local_epsilon * (1 + 1e-6))
    assert shoal.amplify(more, reports=reports).delta(epsilon) > delta


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", [MECHANISMS[0], MECHANISMS[1], MECHANISMS[7], MECHANISMS[10]], ids=name)
@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-6), (0.03, 1e-8)])
def test_fewest_reports(mechanism: Mechanism, epsilon: float, delta: float) -> None:
    found = shoal.calibrate(mechanism, epsilon=epsilon, delta=delta)
    assert found.randomizer == mechanism and found.local_epsilon == mechanism.local_epsilon
    assert found.epsilon <= epsilon
    assert shoal.amplify(mechanism, reports=found.reports).epsilon(delta) <= epsilon
    assert shoal.amplify(mechanism, reports=found.reports - 1).epsilon(delta) > epsilon


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
