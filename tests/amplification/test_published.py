"""Earlier formulas: above the exact pairs, inverses of themselves, honest about their range."""

import math

import numpy as np
import pytest

import shoal
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
                except shoal.RangeError:
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
    with pytest.raises(shoal.RangeError, match="reports >= 1000"):
        FirstForm(999, 0.1).epsilon(1e-6)
    with pytest.raises(shoal.RangeError, match=r"local_epsilon < 0\.5"):
        FirstForm(10**6, 0.5).delta(0.1)
    with pytest.raises(shoal.RangeError) as caught:
        BinaryResponseForm(1000, 5.0).epsilon(1e-6)
    fewest = int(str(caught.value).rsplit("at least ", 1)[1].split(" ")[0].replace(",", ""))
    assert BinaryResponseForm(fewest + 1, 5.0).epsilon(1e-6) <= 5
    with pytest.raises(shoal.RangeError):
        BinaryResponseForm(10, 1.0).delta(0.5)
    with pytest.raises(shoal.RangeError, match="local_delta"):
        ReplacementForm(1000, 1.0, 1e-5).epsilon(1e-6)
    form: FirstForm | CheckInForm | BinaryResponseForm | ReplacementForm
    for form in (FirstForm(10**4, 0.1), CheckInForm(10, 1.0), BinaryResponseForm(10**4, 1.0), ReplacementForm(9, 1.0)):
        with pytest.raises(shoal.NoPairError):
            form.bracket(1e-6)
        with pytest.raises(shoal.NoPairError):
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
