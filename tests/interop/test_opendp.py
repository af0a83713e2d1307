"""OpenDP's measurements, amplified; and shuffled rounds as measurements, composed there."""

import math
from collections.abc import Iterator
from typing import Any

import pytest

import shoal
from shoal.interop.opendp import amplify_measurement, make_shuffled, to_measurement

dp = pytest.importorskip("opendp.prelude")


@pytest.fixture(autouse=True)
def _features() -> Iterator[None]:
    dp.enable_features("contrib", "honest-but-curious")
    yield
    dp.disable_features("contrib", "honest-but-curious")


def _response(truth: float = 0.75) -> Any:
    return dp.m.make_randomized_response_bool(truth)


def test_the_local_epsilon_is_read_and_rounded_up() -> None:
    curve = amplify_measurement(_response(), reports=100_000)
    assert math.log(3) <= curve.local_epsilon <= math.log(3) * (1 + 1e-14)
    same = shoal.amplify(local_epsilon=curve.local_epsilon, reports=100_000)
    assert curve.epsilon(1e-6) == same.epsilon(1e-6) == pytest.approx(0.0127173, rel=1e-5)


def test_categories_are_read_too() -> None:
    curve = amplify_measurement(dp.m.make_randomized_response(["a", "b", "c"], 0.5), reports=10_000)
    assert curve.local_epsilon == pytest.approx(math.log(2))
    assert curve.local_epsilon >= math.log(2)


def test_approximate_measurements_have_a_local_delta() -> None:
    noisy = dp.m.make_user_measurement(
        dp.atom_domain(T=bool),
        dp.discrete_distance(),
        dp.approximate(dp.max_divergence()),
        function=lambda value: value,
        privacy_map=lambda distance: (1.0 * distance, 1e-12 * distance),
    )
    curve = amplify_measurement(noisy, reports=1000)
    assert (curve.local_epsilon, curve.local_delta) == (1.0, 1e-12)


def _float_noise(make: Any) -> Any:
    return make(dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float), 1.0)


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (lambda: _float_noise(dp.m.make_laplace), "input metric is AbsoluteDistance"),
        (lambda: _float_noise(dp.m.make_gaussian), "input metric is AbsoluteDistance"),
        (lambda: make_shuffled(_response(), reports=10), "the values of many people"),
        (lambda: _user(dp.zero_concentrated_divergence()), "output measure is ZeroConcentratedDivergence"),
        (lambda: dp.t.make_identity(dp.atom_domain(T=bool), dp.discrete_distance()), "no measurement"),
        (lambda: 1.0, "no measurement"),
    ],
)
def test_what_is_not_understood_is_refused(make: Any, word: str) -> None:
    with pytest.raises(shoal.ParameterError, match=word):
        amplify_measurement(make(), reports=1000)


def _user(measure: Any) -> Any:
    return dp.m.make_user_measurement(
        dp.atom_domain(T=bool), dp.discrete_distance(), measure, function=lambda value: value, privacy_map=float
    )


def test_a_shuffled_round_runs_and_releases_a_random_order() -> None:
    """With no noise to speak of, the multiset comes through, and the order does not: 40 values, 1 in 40! by chance."""
    survey = make_shuffled(dp.m.make_randomized_response(list(range(40)), 1 - 1e-12), reports=40, delta=1e-6)
    released = survey(list(range(40)))
    assert sorted(released) == list(range(40))
    assert released != list(range(40))
    with pytest.raises(dp.OpenDPException, match="the guarantee is for 40"):
        survey([1, 2])


def test_renyi_divergences_compose_there_exactly() -> None:
    survey = make_shuffled(_response(), reports=10_000)
    curve = amplify_measurement(_response(), reports=10_000)
    twice = dp.c.make_composition([survey, survey])
    for order in (1.5, 4.0, 50.0):
        assert survey.map(1)(order) == curve.renyi(order)
        exact = 2 * curve.renyi(order)
        assert exact <= twice.map(1)(order) <= exact * (1 + 1e-12)
        assert survey.map(0)(order) == 0


@pytest.mark.slow
def test_pairs_compose_there() -> None:
    curve = amplify_measurement(_response(), reports=10_000)
    survey = make_shuffled(_response(), reports=10_000, delta=1e-6)
    assert survey.map(1) == (curve.epsilon(1e-6), 1e-6)
    assert survey.map(0) == (0.0, 0.0)
    epsilon, delta = dp.c.make_composition([survey] * 3).map(1)
    assert 3 * curve.epsilon(1e-6) <= epsilon <= 3 * curve.epsilon(1e-6) * (1 + 1e-12)
    assert 3e-6 <= delta <= 3e-6 * (1 + 1e-12)
    # Shoal adds up losses instead, and so the same three rounds cost less here.
    assert curve.repeated(3).epsilon(3e-6) < epsilon


def test_a_round_composes_with_a_central_mechanism_of_theirs() -> None:
    domain = dp.vector_domain(dp.atom_domain(T=bool), size=1000)
    curve = amplify_measurement(_response(), reports=1000)
    survey = to_measurement(curve, sum, input_domain=domain, delta=1e-6)
    count = dp.m.make_user_measurement(
        domain,
        dp.change_one_distance(),
        dp.approximate(dp.max_divergence()),
        function=sum,
        privacy_map=lambda distance: (0.1 * distance, 0.0),
    )
    both = dp.c.make_adaptive_composition(
        domain,
        dp.change_one_distance(),
        dp.approximate(dp.max_divergence()),
        d_in=1,
        d_mids=[survey.map(1), (0.1, 0.0)],
    )
    assert both.map(1)[0] >= survey.map(1)[0] + 0.1
    queryable = both([True] * 1000)
    assert (queryable(survey), queryable(count)) == (1000, 1000)


def test_larger_distances_are_refused() -> None:
    survey = make_shuffled(_response(), reports=100, delta=1e-6)
    with pytest.raises(dp.OpenDPException, match="a distance of 2 is not known"):
        survey.map(2)


def test_what_has_no_divergence_or_no_size_is_refused_at_once() -> None:
    curve = shoal.amplify(local_epsilon=0.5, reports=10_000, bound="clones-closed-form")
    domain = dp.vector_domain(dp.atom_domain(T=bool), size=10_000)
    with pytest.raises(shoal.errors.NoPairError):
        to_measurement(curve, sum, input_domain=domain)
    assert to_measurement(curve, sum, input_domain=domain, delta=1e-6).map(1)[0] == curve.epsilon(1e-6)
    with pytest.raises(shoal.ParameterError, match="give the vector domain a size"):
        to_measurement(curve, sum, input_domain=dp.vector_domain(dp.atom_domain(T=bool)), delta=1e-6)
