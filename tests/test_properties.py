"""Properties that hold for every setting, drawn from one end of the allowed range to the other."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Literal

import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

import shoal
from shoal.calibration.target import ROOM
from shoal.pairs import LikelihoodPair
from tests.exhaustive import amount
from tests.oracles import exact

Family = Literal["clones", "strong-clones"]
PAIRS: dict[Family, exact.CloneProbability] = {"clones": "clones", "strong-clones": "strong"}

RELATIVE, ABSOLUTE = 1e-6, 1e-12
"""How far monotonicity may fail: every number is rounded up by a little, not always by the same."""


def examples(count: int) -> settings:
    """Return settings that draw the same examples every time."""
    return settings(
        max_examples=amount(-(-count // 4), count),
        derandomize=True,
        deadline=None,
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    )


def scaled(least: float, most: float) -> st.SearchStrategy[float]:
    """Return numbers whose logarithm is spread evenly."""
    return st.floats(math.log(least), math.log(most)).map(lambda value: min(max(math.exp(value), least), most))


def about(least: int, most: int) -> st.SearchStrategy[int]:
    """Return whole numbers whose logarithm is spread evenly."""
    return scaled(least, most).map(round)


families: st.SearchStrategy[Family] = st.sampled_from(["clones", "strong-clones"])
local_epsilons = scaled(1e-3, 20)
report_counts = about(1, 10**12)
deltas = scaled(1e-30, 1e-2)
shares = st.one_of(st.floats(0, 1), scaled(1e-9, 1), scaled(1e-12, 1).map(lambda value: 1 - value))
"""ε as a share of ε₀, often close to one of the ends."""


def curve_of(reports: int, local_epsilon: float, bound: str = "tightest") -> shoal.PrivacyCurve:
    return shoal.amplify(local_epsilon=local_epsilon, reports=reports, bound=bound)


# Against exact sums


@pytest.mark.slow
@examples(160)
@given(st.integers(1, 60), local_epsilons, shares, families)
def test_delta_is_at_least_exact_and_hardly_more(
    reports: int, local_epsilon: float, share: float, family: Family
) -> None:
    epsilon = share * local_epsilon
    found = curve_of(reports, local_epsilon, family).delta(epsilon)
    truth = exact.pair_delta(reports, local_epsilon, epsilon, PAIRS[family], bits=200)
    assert truth <= found or epsilon == local_epsilon
    assert found <= max(float(truth) * (1 + 1e-8), 1e-300)


@pytest.mark.slow
@examples(100)
@given(st.integers(1, 60), local_epsilons, deltas, families)
@example(4, 0.809469579195619, 0.01, "strong-clones")
@example(80, 0.19505633258228133, 2.0063368699757443e-20, "strong-clones")
def test_epsilon_bracket_has_exact_epsilon_inside(
    reports: int, local_epsilon: float, delta: float, family: Family
) -> None:
    lower, upper = curve_of(reports, local_epsilon, family).epsilon_bracket(delta)
    if upper < local_epsilon:
        assert exact.pair_delta(reports, local_epsilon, upper, PAIRS[family], bits=200) <= delta
    if lower > 0:
        assert exact.pair_delta(reports, local_epsilon, lower, PAIRS[family], bits=200) >= delta * (1 - 1e-12)


@pytest.mark.slow
@examples(60)
@given(st.integers(1, 12), scaled(0.01, 12), shares, st.integers(2, 1000))
def test_decomposition_is_at_least_exact_and_hardly_more(
    reports: int, local_epsilon: float, share: float, categories: int
) -> None:
    randomizer = shoal.RandomizedResponse(categories=categories, local_epsilon=local_epsilon)
    parts, epsilon = randomizer.decomposition, share * local_epsilon
    assume(epsilon < local_epsilon)
    found = shoal.amplify(randomizer, reports=reports, bound="decomposition").delta(epsilon)
    truth = exact.decomposition_delta(reports, parts.blanket_probability, parts.own_probability, epsilon, bits=200)
    assert truth <= found <= float(truth) * (1 + 1e-6)


@pytest.mark.slow
@examples(60)
@given(st.integers(1, 14), scaled(0.01, 12), shares)
@example(13, 8.983181300507074, 8.983176892364753 / 8.983181300507074)
def test_lower_bound_is_at_most_exact(reports: int, local_epsilon: float, share: float) -> None:
    epsilon = share * local_epsilon
    two = exact.two_rr_worst(reports, local_epsilon, epsilon, bits=300)
    three = exact.three_rr_delta(reports, local_epsilon, epsilon, bits=300)
    lower = shoal.lower_bound(local_epsilon=local_epsilon, reports=reports).delta(epsilon)
    assert lower == 0 or lower <= two or lower <= three
    lower = shoal.lower_bound(local_epsilon=local_epsilon, reports=reports, categories=2).delta(epsilon)
    assert lower == 0 or lower <= two
    third = shoal.RandomizedResponse(categories=3, local_epsilon=local_epsilon).homogeneous[0]
    lower = LikelihoodPair(reports, third).delta_bracket(epsilon)[0]
    assert lower == 0 or lower <= three


# δ and ε undo each other


@pytest.mark.slow
@examples(160)
@given(report_counts, local_epsilons, deltas, families)
def test_delta_of_epsilon_meets_its_target_closely(
    reports: int, local_epsilon: float, delta: float, family: Family
) -> None:
    curve = curve_of(reports, local_epsilon, family)
    epsilon = curve.epsilon(delta)
    assert 0 <= epsilon <= local_epsilon
    assert curve.delta(epsilon) <= delta
    less = epsilon * (1 - RELATIVE) - ABSOLUTE
    assert less <= 0 or curve.delta(less) > delta
    bracket = curve.epsilon_bracket(delta)
    assert bracket.lower <= epsilon <= bracket.upper
    assert bracket.upper <= bracket.lower * (1 + RELATIVE) + ABSOLUTE


@pytest.mark.slow
@examples(120)
@given(report_counts, local_epsilons, deltas, families)
def test_epsilon_bracket_is_narrow(reports: int, local_epsilon: float, delta: float, family: Family) -> None:
    curve = curve_of(reports, local_epsilon, family)
    bracket = curve.epsilon_bracket(delta)
    assert bracket.lower <= curve.epsilon(delta) <= bracket.upper
    assert bracket.upper <= bracket.lower * (1 + RELATIVE) + ABSOLUTE


# Monotone


@pytest.mark.slow
@examples(120)
@given(
    reports=report_counts,
    local_epsilon=local_epsilons,
    delta=deltas,
    family=families,
    crowd=scaled(1, 1e3),
    louder=scaled(1 + 1e-12, 10),
    laxer=scaled(1 + 1e-12, 1e6),
)
def test_more_reports_more_noise_and_a_larger_delta_never_cost(
    *, reports: int, local_epsilon: float, delta: float, family: Family, crowd: float, louder: float, laxer: float
) -> None:
    curve = curve_of(reports, local_epsilon, family)
    epsilon = curve.epsilon(delta)
    most = epsilon * (1 + RELATIVE) + ABSOLUTE
    assert curve_of(max(reports + 1, round(reports * crowd)), local_epsilon, family).epsilon(delta) <= most
    assert curve.epsilon(min(delta * laxer, 0.5)) <= most
    more = curve_of(reports, min(local_epsilon * louder, 20), family).epsilon(delta)
    assert epsilon <= more * (1 + RELATIVE) + ABSOLUTE


@pytest.mark.slow
@examples(160)
@given(report_counts, local_epsilons, shares, shares, families)
def test_a_larger_epsilon_never_needs_a_larger_delta(
    reports: int, local_epsilon: float, one: float, other: float, family: Family
) -> None:
    curve = curve_of(reports, local_epsilon, family)
    less, more = sorted((one * local_epsilon, other * local_epsilon))
    assert 0 <= curve.delta(more) <= curve.delta(less) * (1 + RELATIVE) + 1e-300
    assert curve.delta(local_epsilon) == 0


# Certificates


@pytest.mark.slow
@examples(60)
@given(report_counts, local_epsilons, deltas, families)
def test_certificate_proves_what_was_computed(reports: int, local_epsilon: float, delta: float, family: Family) -> None:
    curve = curve_of(reports, local_epsilon, family)
    certificate = curve.certify(delta=delta)
    assert certificate.delta == delta
    assert curve.epsilon_bracket(delta).lower <= certificate.epsilon
    assert certificate.epsilon <= curve.epsilon(delta) * (1 + 1e-9)
    again = shoal.Certificate.from_json(certificate.to_json())
    assert again == certificate
    assert again.verify()


@pytest.mark.slow
@examples(10)
@given(about(1, 10**6), scaled(1e-2, 8), scaled(1e-12, 1e-2), families)
def test_certificate_of_a_smaller_epsilon_is_refused(
    reports: int, local_epsilon: float, delta: float, family: Family
) -> None:
    curve = curve_of(reports, local_epsilon, family)
    certificate = curve.certify(delta=delta)
    smaller = curve.epsilon_bracket(delta).lower * (1 - 1e-9)  # where δ(ε) > δ
    assume(smaller > 0)
    for fineness in (certificate.witness["fineness"], 0.0, 1e-4):
        witness = {"fineness": fineness, "from": smaller}
        forged = replace(certificate, epsilon=smaller, printed_epsilon=smaller, witness=witness, proven_delta=delta)
        assert "is not proved: the balls show" in forged.objection()


# Rényi


@pytest.mark.slow
@examples(60)
@given(st.integers(1, 60), local_epsilons, scaled(1e-3, 1e3), families)
def test_renyi_is_at_least_exact_and_hardly_more(
    reports: int, local_epsilon: float, above_one: float, family: Family
) -> None:
    order = 1 + above_one
    found = curve_of(reports, local_epsilon, family).renyi(order)
    truth = float(exact.pair_renyi(reports, local_epsilon, order, PAIRS[family], bits=600))
    assert truth * (1 - 1e-14) <= found <= truth * (1 + 5e-4)


@pytest.mark.slow
@examples(25)
@given(report_counts, local_epsilons, scaled(1e-3, 1e3), scaled(1 + 1e-9, 10), families)
def test_renyi_grows_with_the_order_up_to_local_epsilon(
    reports: int, local_epsilon: float, above_one: float, factor: float, family: Family
) -> None:
    less, more = curve_of(reports, local_epsilon, family).renyi([1 + above_one, 1 + above_one * factor])
    assert 0 < less <= more * (1 + 1e-4)
    assert more <= local_epsilon


# Approximate DP


@pytest.mark.slow
@examples(60)
@given(
    reports=report_counts,
    local_epsilon=local_epsilons,
    local_delta=scaled(1e-30, 1e-2),
    one=shares,
    other=shares,
    family=families,
)
def test_approximate_delta_falls_and_is_above_the_pure_one(
    *, reports: int, local_epsilon: float, local_delta: float, one: float, other: float, family: Family
) -> None:
    curve = shoal.amplify(local_epsilon=local_epsilon, local_delta=local_delta, reports=reports, bound=family)
    pure = curve_of(reports, local_epsilon, family)
    less, more = sorted((one * local_epsilon, other * local_epsilon))
    assert pure.delta(more) <= curve.delta(more) <= 1
    assert curve.delta(more) <= curve.delta(less) * (1 + RELATIVE)
    assert curve.delta(local_epsilon) <= local_delta


@pytest.mark.slow
@examples(60)
@given(report_counts, local_epsilons, scaled(1e-30, 1e-2), scaled(1e-12, 0.3), families)
@example(2, 0.7799603501546255, 1.0218961658253642e-06, 1.6756931311901577e-05, "clones")
def test_approximate_epsilon_meets_its_target(
    reports: int, local_epsilon: float, local_delta: float, delta: float, family: Family
) -> None:
    curve = shoal.amplify(local_epsilon=local_epsilon, local_delta=local_delta, reports=reports, bound=family)
    if delta < local_delta:
        try:
            epsilon = curve.epsilon(delta)
        except shoal.errors.UnreachableError:
            return
    else:
        epsilon = curve.epsilon(delta)
    assert 0 <= epsilon <= local_epsilon
    assert curve.delta(epsilon) <= delta
    assert epsilon >= curve_of(reports, local_epsilon, family).epsilon(delta) * (1 - RELATIVE) - ABSOLUTE


# Calibration


@pytest.mark.slow
@examples(40)
@given(about(1, 10**6), scaled(1e-3, 10), scaled(1e-15, 1e-2))
def test_calibrated_local_epsilon_is_the_largest(reports: int, target: float, delta: float) -> None:
    found = shoal.calibrate(epsilon=target, delta=delta, reports=reports)
    assert found.reports == reports
    assert curve_of(reports, found.local_epsilon).epsilon(delta) == found.epsilon <= target
    assert curve_of(reports, found.local_epsilon * (1 + RELATIVE)).epsilon(delta) > target * (1 - ROOM)


@pytest.mark.slow
@examples(40)
@given(scaled(1e-2, 8), scaled(1e-3, 10), scaled(1e-15, 1e-2))
def test_calibrated_reports_are_the_fewest(local_epsilon: float, target: float, delta: float) -> None:
    assume(curve_of(10**6, local_epsilon).epsilon(delta) <= target * (1 - ROOM))
    found = shoal.calibrate(epsilon=target, delta=delta, local_epsilon=local_epsilon)
    assert found.local_epsilon == local_epsilon
    assert found.reports <= 10**6
    assert curve_of(found.reports, local_epsilon).epsilon(delta) == found.epsilon <= target
    if found.reports > 1:
        assert curve_of(found.reports - 1, local_epsilon).epsilon(delta) > target * (1 - ROOM)
