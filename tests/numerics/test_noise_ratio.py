"""δ(ε) of one report with normal noise, from both sides, against balls: also where a tail is no double."""

import pytest
from flint import arb, ctx

import shoal
from shoal.numerics.noise_ratio import GaussianRatio


def _delta(deviation: float, epsilon: float) -> arb:
    """Return Φ(1/(2σ) − εσ) − e^ε·Φ(−1/(2σ) − εσ) as a ball."""
    half, place, root = 1 / (2 * arb(deviation)), arb(epsilon) * arb(deviation), arb(2).sqrt()
    near, far = ((place + side * half) / root for side in (-1, 1))
    return (near.erfc() - arb(epsilon).exp() * far.erfc()) / 2


@pytest.mark.parametrize("deviation", [0.03, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0, 5.0])
@pytest.mark.parametrize("point", [0.0, 0.5, 3.0, 10.0, 30.0, 34.0, 35.5, 36.5, 36.9])
def test_both_sides_of_one_report(deviation: float, point: float) -> None:
    epsilon = (point + 0.5 / deviation) / deviation
    ratio, before = GaussianRatio(deviation), ctx.prec
    ctx.prec = 400
    try:
        exact = _delta(deviation, epsilon)
        assert arb(ratio.alone_below(epsilon)) <= exact <= arb(ratio.alone(epsilon))
    finally:
        ctx.prec = before


def test_the_lower_end_of_a_tiny_delta_is_below_the_exact_value() -> None:
    low, high = shoal.amplify(shoal.Gaussian(deviation=0.3), reports=1).epsilon_bracket(1e-300)
    assert low <= 128.8214382 <= high  # 128.82143821…, where the farther tail is no double


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("deviation", "delta"), [(0.05, 1e-300), (0.05, 1e-100), (0.3, 1e-300), (0.02, 1e-6)])
def test_rounds_with_losses_whose_exponential_is_no_double_are_answered(deviation: float, delta: float) -> None:
    curve = shoal.amplify(shoal.Gaussian(deviation=deviation), reports=1)
    assert curve.repeated(2).epsilon(delta) > curve.epsilon(delta)
