"""The analytic blanket bounds: constants derived again, above the exact blanket and above what real inputs reach."""

import itertools
import math
from typing import Literal

import numpy as np
import pytest
from scipy.stats import binom

import shoal
from shoal.amplification.blanket_form import BlanketForm
from shoal.amplification.lower_bounds import lower_bound

Inequality = Literal["hoeffding", "bennett"]
_BOTH: tuple[Inequality, ...] = ("hoeffding", "bennett")


def _exact_blanket(reports: int, local_epsilon: float, epsilon: float, categories: int) -> float:
    """Return E[(W₁ + … + Wₙ)₊]/n for the distribution of k-ary randomized response, by listing all counts."""
    local, factor = math.exp(local_epsilon), math.exp(epsilon)
    unit = 1 / (local + categories - 1)
    distribution = [
        (local - factor, unit),
        (1 - local * factor, unit),
        (1 - factor, (categories - 2) * unit),
        (0.0, (local - 1) * unit),
    ]
    total = 0.0
    for counts in itertools.product(range(reports + 1), repeat=3):
        last = reports - sum(counts)
        if last < 0:
            continue
        ways, together, value = math.factorial(reports), 1.0, 0.0
        for count, (height, probability) in zip((*counts, last), distribution, strict=True):
            ways //= math.factorial(count)
            together *= probability**count
            value += count * height
        total += ways * together * max(value, 0.0)
    return total / reports


@pytest.mark.parametrize("inequality", _BOTH)
def test_response_lies_above_the_exact_blanket(inequality: Inequality) -> None:
    for reports, local_epsilon, categories in ((2, 1.0, 2), (6, 0.5, 3), (9, 2.0, 4), (12, 1.5, 3)):
        form = BlanketForm(reports, local_epsilon, inequality, "response", categories)
        for share in (0.05, 0.3, 0.6, 0.95):
            exact = _exact_blanket(reports, local_epsilon, share * local_epsilon, categories)
            assert form.delta(share * local_epsilon) >= exact


@pytest.mark.slow
def test_bounds_lie_above_what_randomized_response_reaches() -> None:
    random = np.random.default_rng(5)
    useful = 0
    for _ in range(14):
        reports, local_epsilon = int(10 ** random.uniform(2, 4.5)), float(10 ** random.uniform(-1, 0.7))
        delta = float(10 ** random.uniform(-10, -2))
        categories = int(random.choice([2, 3, 5, 20]))
        limit = lower_bound(local_epsilon=local_epsilon, reports=reports, categories=categories).epsilon(delta)
        strong = shoal.amplify(local_epsilon=local_epsilon, reports=reports)
        assert strong.lower is not None
        for inequality in _BOTH:
            named = BlanketForm(reports, local_epsilon, inequality, "response", categories).epsilon(delta)
            generic = BlanketForm(reports, local_epsilon, inequality).epsilon(delta)
            assert limit <= named <= local_epsilon
            assert strong.lower.epsilon(delta) <= strong.epsilon(delta) <= generic <= local_epsilon
            useful += named < local_epsilon
    assert useful > 14


def test_the_constants_are_suprema() -> None:
    for local_epsilon, epsilon in ((0.5, 0.2), (2.0, 0.7), (4.0, 3.0)):
        local, factor = math.exp(local_epsilon), math.exp(epsilon)
        laplace = BlanketForm(10, local_epsilon, "bennett", "laplace")
        probability, complement = laplace._blanket_probability()
        assert probability + complement == pytest.approx(1, rel=1e-15)
        highest, width, square = laplace._constants(epsilon, probability)
        points = np.linspace(-14 / local_epsilon, 1 + 14 / local_epsilon, 40_001)
        inputs = np.array([0.0, 0.2, 0.5, 0.8, 1.0])
        densities = local_epsilon / 2 * np.exp(-local_epsilon * np.abs(points - inputs[:, None]))
        blanket = np.minimum(densities[0], densities[-1])
        moments = []
        for first, second in itertools.permutations(densities, 2):
            losses = probability * (first - factor * second) / blanket
            assert losses.max() <= highest * (1 + 1e-12)
            assert losses.max() - losses.min() <= width * (1 + 1e-12)
            moments.append(np.trapezoid(losses**2 * blanket, points) / probability)
        assert max(moments) == pytest.approx(square, rel=1e-3)
        # k-ary randomized response: the values of l are three.
        for categories in (2, 3, 9):
            response = BlanketForm(10, local_epsilon, "bennett", "response", categories)
            probability, _ = response._blanket_probability()
            values = probability * np.array([local - factor, 1 - local * factor, 1 - factor])
            weights = np.array([1, 1, categories - 2]) / categories
            highest, width, square = response._constants(epsilon, probability)
            assert (highest, width) == pytest.approx((values[0], values[0] - values[1]), rel=1e-12)
            assert square == pytest.approx(float(weights @ values**2), rel=1e-12)
        # The generic row: printed as in the release, and above what R(x)/ω in [1, e^ε₀] allows.
        highest, width, square = BlanketForm(10, local_epsilon, "bennett")._constants(epsilon, 1 / local)
        assert highest == pytest.approx(local - factor / local) and highest >= local - factor
        assert width == pytest.approx((factor + 1) * (local - 1 / local)) and width >= (factor + 1) * (local - 1)
        assert square == pytest.approx(local * (factor**2 + 1) - 2 * factor / local**3)
        assert square >= local * (factor**2 + 1) - 2 * factor


def _released_delta(form: BlanketForm, epsilon: float) -> float:
    """Return δ as the authors' release computes it: the binomial mean summed, φ as it stands there."""
    probability, _ = form._blanket_probability()
    highest, _, square = form._constants(epsilon, probability)
    ratio = (math.exp(epsilon) - 1) * highest / square
    entropy = (1 + ratio) * math.log(1 + ratio) - ratio
    if entropy < 0:
        entropy = ratio**2
    rate, factor = square / highest**2 * entropy, highest / math.log(1 + ratio)
    if form.reports > 10**6:
        return (
            factor / (probability * form.reports) * math.exp(form.reports * math.log1p(probability * math.expm1(-rate)))
        )
    terms = binom.pmf(np.arange(1, form.reports + 1), form.reports, probability) * np.exp(
        -rate * np.arange(1, form.reports + 1)
    )
    return float(terms.sum()) * factor / (probability * form.reports)


def test_the_generating_function_replaces_the_sum_of_the_release() -> None:
    for reports, local_epsilon, epsilon in ((1, 1.0, 0.4), (5, 2.0, 0.5), (10**4, 1.0, 0.2), (10**5, 3.0, 0.1)):
        for form in (
            BlanketForm(reports, local_epsilon, "bennett"),
            BlanketForm(reports, local_epsilon, "bennett", "response", 4),
            BlanketForm(reports, local_epsilon, "bennett", "laplace"),
        ):
            released = min(1.0, _released_delta(form, epsilon))
            assert form.delta(epsilon) == pytest.approx(released, rel=1e-9)


def test_the_release_loses_phi_to_rounding() -> None:
    # φ(u) = u²/2 − …, computed as a difference, and replaced by u² where it comes out negative.
    form = BlanketForm(10**12, 1e-4, "bennett")
    assert form.delta(8.56e-10) == pytest.approx(9.3415e-7, rel=1e-4)
    assert _released_delta(form, 8.56e-10) == pytest.approx(1.02e-7, rel=1e-2)


def test_epsilon_and_delta_are_inverse_and_safe() -> None:
    for inequality, reports in itertools.product(_BOTH, (1, 50, 10**6, 10**9, 10**15)):
        for local_epsilon in (1e-6, 0.3, 2.0, 12.0, 90.0, 500.0):
            form = BlanketForm(reports, local_epsilon, inequality)
            for delta in (0.5, 1e-6, 1e-200):
                epsilon = form.epsilon(delta)
                assert form.delta(epsilon) <= delta
                assert epsilon <= local_epsilon
            assert form.delta(0.0) == 1.0
            assert form.delta(local_epsilon) == 0.0
            assert form.epsilon(0.0) == local_epsilon


def test_a_formula_has_no_pair() -> None:
    form = BlanketForm(100, 1.0, "bennett")
    with pytest.raises(shoal.NoPairError):
        form.bracket(1e-6)
    with pytest.raises(shoal.NoPairError):
        form.renyi(np.array([2.0]))
