"""What is handed to dp-accounting: never below the truth, and it composes there."""

import pytest
from dp_accounting.pld.privacy_loss_distribution import from_gaussian_mechanism, from_laplace_mechanism

import shoal

DELTA = 1e-6


@pytest.mark.slow
@pytest.mark.parametrize(("reports", "local_epsilon"), [(100, 0.5), (10_000, 1.0), (1_000_000, 4.0)])
def test_one_round_is_at_least_the_exact_one_and_close(reports: int, local_epsilon: float) -> None:
    curve = shoal.amplify(local_epsilon=local_epsilon, reports=reports, bound="strong-clones")
    handed = curve.to_dp_accounting()
    lower, upper = curve.epsilon_bracket(DELTA)
    assert lower <= handed.get_epsilon_for_delta(DELTA) <= upper * 1.02 + 1e-4
    for epsilon in (0.0, 0.5 * upper, upper, 2 * upper):
        assert handed.get_delta_for_epsilon(epsilon) >= curve.delta(epsilon) * (1 - 1e-6) - 1e-15


@pytest.mark.slow
def test_rounds_are_composed_there_as_here() -> None:
    daily = shoal.amplify(local_epsilon=2, reports=100_000)
    weekly = shoal.amplify(local_epsilon=3, reports=100_000)
    together = shoal.compose([(daily, 30), (weekly, 4)])
    lower, upper = together.epsilon_bracket(DELTA)
    assert lower <= together.to_dp_accounting().get_epsilon_for_delta(DELTA) <= upper * 1.01


@pytest.mark.slow
@pytest.mark.parametrize("other", [from_gaussian_mechanism(5.0), from_laplace_mechanism(10.0)])
def test_it_composes_with_other_mechanisms(other: object) -> None:
    handed = shoal.amplify(local_epsilon=2, reports=100_000).to_dp_accounting()
    alone = other.get_epsilon_for_delta(DELTA)  # type: ignore[attr-defined]
    both = other.compose(handed).get_epsilon_for_delta(DELTA)  # type: ignore[attr-defined]
    assert alone < both < alone + handed.get_epsilon_for_delta(DELTA / 2) + 0.1


def test_a_formula_has_nothing_to_hand_over() -> None:
    formula = shoal.amplify(local_epsilon=1, reports=100_000, bound="clones-closed-form")
    with pytest.raises(shoal.NoPairError, match="numerical bound"):
        formula.to_dp_accounting()
    with pytest.raises(shoal.ParameterError, match="interval"):
        shoal.amplify(local_epsilon=1, reports=100).to_dp_accounting(interval=0)
