"""Every absurd argument gives the exact limit or a clear error: never NaN, a negative number, a hang or a warning."""

import math
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

import shoal
from shoal.amplification.amplify import proven_bounds
from shoal.checks import known
from shoal.pairs.registry import registration
from tests.exhaustive import EXHAUSTIVE, representative

_SEVERAL_MESSAGES = ("covers", "dummies", "split-and-mix")
NEEDING_A_RANDOMIZER = ("blanket", "cheu", "decomposition", "decomposition-closed-form", "one-bit", *_SEVERAL_MESSAGES)


@pytest.mark.parametrize("reports", [0, -5, 1.5, math.nan, math.inf, "ten", None, True, 1e16, [10]])
def test_reports_must_be_a_sensible_whole_number(reports: Any) -> None:
    with pytest.raises(shoal.ParameterError, match="reports must be"):
        shoal.amplify(local_epsilon=1, reports=reports)


@pytest.mark.parametrize("local_epsilon", [-1, math.nan, math.inf, "one", True])
def test_local_epsilon_must_be_a_sensible_number(local_epsilon: Any) -> None:
    with pytest.raises(shoal.ParameterError, match="local_epsilon must be"):
        shoal.amplify(local_epsilon=local_epsilon, reports=10)


@pytest.mark.parametrize("delta", [-1e-9, 1, 1.5, math.nan, math.inf, "small"])
def test_delta_must_be_below_one(delta: Any) -> None:
    with pytest.raises(shoal.ParameterError, match="delta must be"):
        shoal.amplify(local_epsilon=1, reports=10).epsilon(delta)


@pytest.mark.parametrize("epsilon", [-0.1, math.nan, math.inf])
def test_epsilon_must_be_a_sensible_number(epsilon: float) -> None:
    with pytest.raises(shoal.ParameterError, match="epsilon must be"):
        shoal.amplify(local_epsilon=1, reports=10).delta(epsilon)


@pytest.mark.parametrize("order", [1, 0.5, -2, math.nan, math.inf])
def test_order_must_exceed_one(order: float) -> None:
    with pytest.raises(shoal.ParameterError, match="order must be"):
        shoal.amplify(local_epsilon=1, reports=10).renyi(order)


@pytest.mark.parametrize(
    "arguments", [{}, {"local_epsilon": 1, "randomizer": shoal.RandomizedResponse(categories=2, local_epsilon=1)}]
)
def test_exactly_one_description_of_the_randomizer(arguments: dict[str, Any]) -> None:
    with pytest.raises(shoal.ParameterError, match="either a randomizer or local_epsilon"):
        shoal.amplify(reports=10, **arguments)


def test_unknown_bounds_and_randomizers_are_named() -> None:
    with pytest.raises(shoal.ParameterError, match="strong-clones"):
        shoal.amplify(local_epsilon=1, reports=10, bound="best")
    with pytest.raises(shoal.ParameterError, match="RandomizedResponse"):
        shoal.amplify("rr", reports=10)  # type: ignore[arg-type]
    with pytest.raises(shoal.ParameterError, match="decompose"):
        shoal.amplify(local_epsilon=1, reports=10, bound="decomposition")
    with pytest.raises(shoal.ParameterError, match="local_delta"):
        shoal.amplify(local_epsilon=1, local_delta=1e-9, reports=10, bound="clones-closed-form")
    for description in ({"categories": 1, "local_epsilon": 1}, {"categories": 3, "local_epsilon": 0}):
        with pytest.raises(shoal.ParameterError):
            shoal.RandomizedResponse(**description)
    with pytest.raises(shoal.ParameterError, match="likelihoods are known"):
        shoal.amplify(local_epsilon=1, reports=10, bound="blanket")
    for probabilities in (
        {"blanket_probability": 0.4, "own_probability": 0.5},
        {"blanket_probability": 0.1, "own_probability": 1.5},
    ):
        with pytest.raises(shoal.ParameterError):
            shoal.Decomposition(**probabilities, local_epsilon=1)


def test_integral_floats_and_numpy_numbers_are_numbers_of_reports() -> None:
    expected = shoal.amplify(local_epsilon=1, reports=1_000_000).epsilon(1e-6)
    for reports in (1e6, np.int64(10**6), np.float64(1e6)):
        assert shoal.amplify(local_epsilon=np.float32(1), reports=reports).epsilon(1e-6) == expected


def test_limits_are_exact() -> None:
    curve = shoal.amplify(local_epsilon=2, reports=1000)
    assert curve.epsilon(0) == 2
    assert curve.delta(2) == curve.delta(2.5) == curve.delta(1e9) == 0
    assert curve.epsilon(0.99) == 0
    nothing = shoal.amplify(local_epsilon=0, reports=1000)
    assert nothing.epsilon(1e-6) == nothing.delta(0) == nothing.delta(1) == nothing.renyi(2) == 0
    assert not nothing.amplified


@pytest.mark.parametrize("local_epsilon", [1e-300, 1e-12, 1e-3, 1.0, 30.0, 55.0, 70.0, 800.0, 1e300])
@pytest.mark.parametrize("bound", ["strong-clones", "clones"])
def test_one_report_is_randomized_response(local_epsilon: float, bound: str) -> None:
    curve = shoal.amplify(local_epsilon=local_epsilon, reports=1, bound=bound)
    half = local_epsilon / 2
    expected = -math.expm1(-half) / (1 + math.exp(-local_epsilon)) if half < 1e3 else 1.0
    assert expected * (1 - 1e-14) <= curve.delta(half) <= expected * (1 + 1e-14)
    assert not curve.amplified


@pytest.mark.parametrize("local_epsilon", [40.0, 60.0, 100.0, 800.0, 1e300])
def test_nothing_is_amplified_at_a_huge_local_epsilon(local_epsilon: float) -> None:
    curve = shoal.amplify(local_epsilon=local_epsilon, reports=1000)
    assert local_epsilon * (1 - 1e-7) <= curve.epsilon(1e-6) <= local_epsilon
    assert not curve.amplified
    assert not curve.to_dict(delta=1e-6)["amplified"]
    assert curve.renyi(2) <= local_epsilon
    assert curve.certify(delta=1e-6).verify()


_BOUNDS = [bound for bound in proven_bounds() if bound not in NEEDING_A_RANDOMIZER]
_SETTINGS = list(product(_BOUNDS, (1e-300, 1e-9, 0.7, 12.0, 50.0, 61.0, 800.0), (1, 2, 3, 17, 10**5, 10**15)))
if not EXHAUSTIVE:
    _SETTINGS.remove(("koskela", 50.0, 10**15))  # half a minute


@pytest.mark.slow
@pytest.mark.parametrize(("bound", "local_epsilon", "reports"), representative(_SETTINGS, len(_SETTINGS) // 2), ids=str)
def test_no_setting_gives_nonsense(bound: str, local_epsilon: float, reports: int) -> None:
    curve = shoal.amplify(local_epsilon=local_epsilon, reports=reports, bound=bound)
    assert bound in ("tightest", curve.bound)
    for delta in (1e-300, 1e-30, 1e-6, 0.3, 0.999):
        try:
            epsilon = curve.epsilon(delta)
        except shoal.errors.RangeError as error:
            assert "form needs" in str(error) or "bound needs" in str(error)
            continue
        assert 0 <= epsilon <= local_epsilon
        assert curve.delta(epsilon) <= delta * (1 + 1e-9)
    assert "PrivacyCurve(" in repr(curve)


@pytest.mark.slow
@pytest.mark.parametrize("local_epsilon", [1e-6, 1.0, 40.0, 599.0, 800.0])
@pytest.mark.parametrize("categories", [2, 3, 10**6])
@pytest.mark.parametrize("reports", [1, 2, 1000])
def test_no_randomized_response_gives_nonsense(local_epsilon: float, categories: int, reports: int) -> None:
    randomizer = shoal.RandomizedResponse(categories=categories, local_epsilon=local_epsilon)
    curve = shoal.amplify(randomizer, reports=reports)
    assert 0 <= curve.epsilon(1e-6) <= local_epsilon
    assert 0 <= curve.lower.epsilon(1e-6) <= curve.epsilon(1e-6) * (1 + 1e-12)  # type: ignore[union-attr]


def _renyi(curve: shoal.PrivacyCurve) -> None:
    curve.renyi(2)


def _bracket(curve: shoal.PrivacyCurve) -> None:
    curve.epsilon_bracket(1e-6)


def _certify(curve: shoal.PrivacyCurve) -> None:
    curve.certify(delta=1e-6)


def test_formulas_refuse_what_only_pairs_have() -> None:
    for bound in ("clones-closed-form", "clones-sharp-form", "strong-clones-sharp-form"):
        curve = shoal.amplify(local_epsilon=1, reports=10_000, bound=bound)
        numerical = "strong-clones" if bound.startswith("strong") else "clones"
        for question in (_renyi, _bracket, _certify):
            with pytest.raises(shoal.errors.NoPairError, match=f'"{numerical}"'):
                question(curve)
    randomizer = shoal.RandomizedResponse(categories=9, local_epsilon=1)
    with pytest.raises(shoal.errors.NoPairError, match="strong-clones"):
        shoal.amplify(randomizer, reports=100, bound="decomposition").renyi(2)


def test_ranges_are_told_with_numbers() -> None:
    with pytest.raises(shoal.errors.RangeError) as caught:
        shoal.amplify(local_epsilon=9, reports=100_000, bound="clones-closed-form").epsilon(1e-6)
    assert str(caught.value) == (
        "clones-closed-form needs local_epsilon <= 6.01892 at reports=100000, delta=1e-06; got 9. "
        'Use the numerical bound="clones", or at least 1,970,905 reports.'
    )
    assert shoal.amplify(local_epsilon=9, reports=1_970_905, bound="clones-closed-form").epsilon(1e-6) > 0
    with pytest.raises(shoal.errors.RangeError):
        shoal.amplify(local_epsilon=9, reports=1_970_904, bound="clones-closed-form").epsilon(1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("delta", [1e-299, 3e-300, 1e-300, 1e-301, 1e-310, 5e-324])
def test_deltas_at_the_end_of_the_doubles_are_safe(delta: float) -> None:
    """Just above 1e-300 the answer is still proved; below, nothing better than ε₀ is claimed."""
    for reports in (10_000, 10**9):
        curve = shoal.amplify(local_epsilon=1.0, reports=reports)
        epsilon = curve.epsilon(delta)
        assert epsilon <= curve.certify(delta=delta).epsilon <= epsilon * (1 + 1e-9)
        assert curve.delta(epsilon) <= delta
        assert (epsilon == 1.0) == (delta < 1e-300)


def test_arrays_broadcast() -> None:
    curve = shoal.amplify(local_epsilon=1, reports=10_000)
    deltas = np.array([[1e-6, 1e-8], [1e-10, 0.0]])
    epsilons = curve.epsilon(deltas)
    assert epsilons.shape == (2, 2)
    assert epsilons[0, 1] == curve.epsilon(1e-8)
    assert curve.delta(list(epsilons[0])).shape == (2,)
    assert curve.renyi([2, 3, 4]).shape == (3,)
    assert isinstance(curve.epsilon(1e-6), float)
    assert isinstance(curve.renyi(2), float)


@pytest.mark.parametrize(
    ("value", "meant"),
    [
        ("randomised-response", "randomized-response"),
        ("Randomized Response", "randomized-response"),
        ("krr", "randomized-response"),
        ("OLH", "local-hashing"),
        ("subset", "subset-selection"),
        ("unary_encoding", "unary-encoding"),
        ("something else entirely", None),
    ],
)
def test_a_name_that_is_like_another(value: str, meant: str | None) -> None:
    choices = ("randomized-response", "local-hashing", "subset-selection", "unary-encoding")
    with pytest.raises(shoal.ParameterError, match="mechanism must be one of randomized-response, ") as raised:
        known(choices, mechanism=value)
    assert str(raised.value).endswith(f"; did you mean {meant}?" if meant else f"got {value!r}")


@pytest.mark.parametrize(
    ("question", "meant"),
    [
        (lambda: shoal.amplify(local_epsilon=1, reports=10, bound="clone"), "clones"),
        (lambda: shoal.compose([shoal.amplify(local_epsilon=1, reports=10)], method="rdp"), "renyi"),
        (lambda: shoal.sgd.Run(examples=10, noise_multiplier=1, sampling="balls-and-bins"), "allocation"),
        (lambda: shoal.explain("swap_chain"), "swap-chains"),
        (lambda: registration("hadamard"), "hadamard-response"),
    ],
)
def test_names_of_bounds_methods_samplers_and_randomizers(question: Callable[[], object], meant: str) -> None:
    with pytest.raises(shoal.ShoalError, match=f"did you mean {meant}"):
        question()
