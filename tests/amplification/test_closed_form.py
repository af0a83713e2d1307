"""Formulas: above the pair they come from, inverses of themselves, and honest about their range."""

import math
from typing import Any

import numpy as np
import pytest

import shoal

_FORMS = {
    "clones-closed-form": "clones",
    "clones-sharp-form": "clones",
    "strong-clones-sharp-form": "strong-clones",
}


@pytest.mark.slow
@pytest.mark.parametrize("bound", _FORMS)
def test_formulas_lie_above_their_pair(bound: str) -> None:
    random = np.random.default_rng(11)
    held = 0
    for _ in range(200):
        sizes: dict[str, Any] = {
            "reports": int(10 ** random.uniform(1, 9)),
            "local_epsilon": float(10 ** random.uniform(-2, 1)),
        }
        delta = float(10 ** random.uniform(-12, -0.5))
        try:
            epsilon = shoal.amplify(**sizes, bound=bound).epsilon(delta)
        except shoal.RangeError:
            continue
        held += 1
        assert epsilon >= shoal.amplify(**sizes, bound=_FORMS[bound]).epsilon(delta)
    assert held > 60


@pytest.mark.parametrize("bound", _FORMS)
def test_formulas_are_inverted_to_the_safe_side(bound: str) -> None:
    curve = shoal.amplify(local_epsilon=2, reports=10**5, bound=bound)
    for delta in (1e-3, 1e-6, 1e-12):
        epsilon = curve.epsilon(delta)
        back = curve.delta(epsilon)
        assert delta * (1 - 1e-9) <= back <= delta * (1 + 1e-6)
    assert curve.delta(0.0) == 1.0
    assert curve.delta(2.0) == 0.0


def test_the_sharp_forms_have_the_values_of_their_formula() -> None:
    expected = {(10**4, 1): 0.0707, (10**3, 1): 0.2480, (10**6, 2): 0.01690, (10**6, 8): 0.479}
    for (reports, local_epsilon), value in expected.items():
        curve = shoal.amplify(local_epsilon=local_epsilon, reports=reports, bound="strong-clones-sharp-form")
        assert curve.epsilon(1e-6) == pytest.approx(value, rel=1e-3)


@pytest.mark.parametrize("bound", _FORMS)
def test_the_number_of_reports_in_a_refusal_is_enough(bound: str) -> None:
    for local_epsilon in (0.5, 3.0, 8.0):
        with pytest.raises(shoal.RangeError) as caught:
            shoal.amplify(local_epsilon=local_epsilon, reports=10, bound=bound).epsilon(1e-9)
        reports = int(str(caught.value).rsplit("at least ", 1)[1].split(" ")[0].replace(",", ""))
        assert shoal.amplify(local_epsilon=local_epsilon, reports=reports, bound=bound).epsilon(1e-9) <= local_epsilon
        with pytest.raises(shoal.RangeError):
            shoal.amplify(local_epsilon=local_epsilon, reports=int(0.99 * reports), bound=bound).epsilon(1e-9)


def test_the_corollary_for_randomized_response_has_its_corrected_condition() -> None:
    randomizer = shoal.RandomizedResponse(categories=10, local_epsilon=2)
    curve = shoal.amplify(randomizer, reports=10**6, bound="decomposition-closed-form")
    own = (math.exp(2) - 1) / (math.exp(2) + 9)
    # The formula holds with q·δ, so at δ it is used with δ/q.
    root = 4 * math.sqrt(2 * 11 * math.log(4 * own / 1e-6) / ((math.exp(2) + 9) * 10 * 10**6))
    expected = math.log1p((math.exp(2) - 1) * (root + 4 * 11 / (10 * 10**6)))
    assert curve.epsilon(1e-6) == pytest.approx(expected, rel=1e-12)
    assert curve.epsilon(1e-6) >= shoal.amplify(randomizer, reports=10**6, bound="decomposition").epsilon(1e-6)
    many = shoal.RandomizedResponse(categories=303_500, local_epsilon=1)
    with pytest.raises(shoal.RangeError, match="blanket_probability"):
        shoal.amplify(many, reports=3035, bound="decomposition-closed-form").epsilon(1e-30)
