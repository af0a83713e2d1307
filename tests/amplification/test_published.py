"""Earlier formulas and closed forms: above the exact pairs, inverses of themselves, honest about their range."""

import itertools
import math
from typing import Literal

import numpy as np
import pytest
from scipy.stats import binom

import shoal
from shoal.amplification.blanket_form import BlanketForm
from shoal.amplification.lower_bounds import lower_bound
from shoal.amplification.published import BinaryResponseForm, CheckInForm, FirstForm, ReplacementForm

_DELTAS = (0.3, 1e-2, 1e-6, 1e-15)


def test_the_first_form_lies_above_the_strong_clones() -> None:
    for reports in (1000, 2_000, 20_000, 10**6, 10**9):
        for local_epsilon in (0.001, 0.1, 0.49):
            form = FirstForm(reports, local_epsilon)
            strong = shoal.amplify(local_epsilon=local_epsilon, reports=reports)
            for delta in _DELTAS:
                assert strong.epsilon(delta) <= form.epsilon(delta) <= local_epsilon


def test_the_proof_of_the_first_form() -> None:
    # Where 12·√(ln(1/δ)/n) < 1, the sharp form of the strong clones is at most a quarter of it.
    for log in np.geomspace(-math.log(0.01), 690, 40):
        for reports in 144 * log * np.geomspace(1.001, 1e6, 30) + 1:
            for local_epsilon in (1e-6, 0.1, 0.4999):
                sharp = shoal.amplify(
                    local_epsilon=local_epsilon, reports=max(1000, math.ceil(reports)), bound="strong-clones-sharp-form"
                )
                ceiling = 3 * local_epsilon * math.sqrt(log / sharp.reports)
                assert sharp.epsilon(math.exp(-log)) <= ceiling


@pytest.mark.slow
def test_check_ins_lie_above_the_strong_clones() -> None:
    random = np.random.default_rng(3)
    for _ in range(150):
        reports, local_epsilon = int(10 ** random.uniform(0, 9)), float(10 ** random.uniform(-3, 1))
        delta = float(10 ** random.uniform(-14, -0.1))
        strong = shoal.amplify(local_epsilon=local_epsilon, reports=reports)
        assert CheckInForm(reports, local_epsilon).epsilon(delta) >= strong.epsilon(delta)


def test_check_ins_are_of_the_quoted_order() -> None:
    # e^(5ε₀/2)/√n (arXiv 2012.12803v3); the square, e^(5ε₀)/n, does not give the e^(30ε₀)/n quoted for 8ε₀.
    ratios = [CheckInForm(10**15, x).epsilon(0.5) / math.exp(2.5 * x) for x in (4.0, 5.0, 6.0)]
    assert ratios[2] == pytest.approx(ratios[1], rel=0.1)


@pytest.mark.slow
def test_the_binary_form_lies_above_binary_randomized_response() -> None:
    held = 0
    for reports in (100, 1000, 10**4, 10**6):
        for local_epsilon in (0.1, 1.0, 2.0, 4.0):
            form = BinaryResponseForm(reports, local_epsilon)
            limit = lower_bound(local_epsilon=local_epsilon, reports=reports, categories=2)
            for delta in _DELTAS:
                try:
                    epsilon = form.epsilon(delta)
                except shoal.errors.RangeError:
                    continue
                held += 1
                assert limit.epsilon(delta) <= epsilon
    assert held > 40


def test_a_known_value_of_the_binary_form() -> None:
    form = BinaryResponseForm(10**6, 4.0)
    assert form.epsilon(1e-6) == pytest.approx(0.113853, rel=1e-5)
    assert lower_bound(local_epsilon=4, reports=10**6, categories=2).epsilon(1e-6) == pytest.approx(0.024014, rel=1e-4)


def test_the_steps_of_the_binary_proof() -> None:
    for log in np.linspace(math.log(40), 700, 5000):  # L = ln(4/δ), for δ ≤ 1/10
        mean = 14 * log
        coins = mean - math.sqrt(2 * mean * (log - math.log(2)))
        assert coins >= 8 * log + 4 + 1 / (2 * log)
        for people in coins * np.array([1.0, 1.5, 10, 1e4]):
            turn = math.sqrt(people * log / 2)
            assert (2 * turn + 1) / (people / 2 - turn) <= math.sqrt(32 * log / people) * (1 + 1e-12)


def test_out_of_range_says_what_to_do() -> None:
    with pytest.raises(shoal.errors.RangeError, match="reports >= 1000"):
        FirstForm(999, 0.1).epsilon(1e-6)
    with pytest.raises(shoal.errors.RangeError, match=r"local_epsilon < 0\.5"):
        FirstForm(10**6, 0.5).delta(0.1)
    with pytest.raises(shoal.errors.RangeError) as caught:
        BinaryResponseForm(1000, 5.0).epsilon(1e-6)
    fewest = int(str(caught.value).rsplit("at least ", 1)[1].split(" ")[0].replace(",", ""))
    assert BinaryResponseForm(fewest + 1, 5.0).epsilon(1e-6) <= 5
    with pytest.raises(shoal.errors.RangeError):
        BinaryResponseForm(10, 1.0).delta(0.5)
    with pytest.raises(shoal.errors.RangeError, match="local_delta"):
        ReplacementForm(1000, 1.0, 1e-5).epsilon(1e-6)
    form: FirstForm | CheckInForm | BinaryResponseForm | ReplacementForm
    for form in (FirstForm(10**4, 0.1), CheckInForm(10, 1.0), BinaryResponseForm(10**4, 1.0), ReplacementForm(9, 1.0)):
        with pytest.raises(shoal.errors.NoPairError):
            form.bracket(1e-6)
        with pytest.raises(shoal.errors.NoPairError):
            form.renyi(np.array([2.0]))


def test_formulas_are_inverted_to_the_safe_side() -> None:
    form: FirstForm | CheckInForm | BinaryResponseForm | ReplacementForm
    for form in (
        FirstForm(10**5, 0.3),
        CheckInForm(10**6, 1.0),
        BinaryResponseForm(10**5, 2.0),
        ReplacementForm(10**5, 1.0),
    ):
        for delta in (1e-3, 1e-6, 1e-12):
            back = form.delta(form.epsilon(delta))
            assert delta * (1 - 1e-9) <= back <= delta * (1 + 1e-6)
        assert form.delta(0.0) == 1.0
        assert form.delta(50.0) == 0.0


def test_sampling_with_replacement_lies_above_repeated_randomized_response() -> None:
    # n steps, each on a random record: the differing record is met Bin(n, 1/n) times, all others are alike and known.
    reports, local_epsilon = 40, 0.7
    local, form = math.exp(local_epsilon), ReplacementForm(reports, local_epsilon)
    probability = 1 / (1 + local)
    first, second = probability, probability + (1 - 2 * probability) / reports
    pmf = [
        [math.comb(reports, k) * p**k * (1 - p) ** (reports - k) for k in range(reports + 1)] for p in (first, second)
    ]
    for delta in (1e-2, 1e-4, 1e-8):
        factor = math.exp(form.epsilon(delta))
        assert sum(max(0.0, a - factor * b) for a, b in zip(pmf[1], pmf[0], strict=True)) <= delta
        assert sum(max(0.0, a - factor * b) for a, b in zip(pmf[0], pmf[1], strict=True)) <= delta


def test_the_delta_printed_for_sampling_with_replacement_is_too_small() -> None:
    # A step that tells its record with probability δ₀ is (0, δ₀)-DP; some step tells the victim's with about δ₀.
    reports, local_delta, delta = 1000, 1e-3, 1e-9
    told = -math.expm1(reports * math.log1p(-local_delta / reports))
    assert told == pytest.approx(9.995e-4, rel=1e-4)
    assert told > 400 * (reports * delta + local_delta / reports)
    assert told <= ReplacementForm(reports, 1.0, local_delta).delta(100.0)


_FORMS = {
    "clones-closed-form": "clones",
    "clones-sharp-form": "clones",
    "strong-clones-sharp-form": "strong-clones",
}


@pytest.mark.parametrize("bound", _FORMS)
def test_closed_forms_are_inverted_to_the_safe_side(bound: str) -> None:
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
        with pytest.raises(shoal.errors.RangeError) as caught:
            shoal.amplify(local_epsilon=local_epsilon, reports=10, bound=bound).epsilon(1e-9)
        reports = int(str(caught.value).rsplit("at least ", 1)[1].split(" ")[0].replace(",", ""))
        assert shoal.amplify(local_epsilon=local_epsilon, reports=reports, bound=bound).epsilon(1e-9) <= local_epsilon
        with pytest.raises(shoal.errors.RangeError):
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
    with pytest.raises(shoal.errors.RangeError, match="blanket_probability"):
        shoal.amplify(many, reports=3035, bound="decomposition-closed-form").epsilon(1e-30)


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
    with pytest.raises(shoal.errors.NoPairError):
        form.bracket(1e-6)
    with pytest.raises(shoal.errors.NoPairError):
        form.renyi(np.array([2.0]))
