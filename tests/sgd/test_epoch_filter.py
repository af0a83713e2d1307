"""Epochs that are chosen as one goes: what a filter covers, and what a fixed number of epochs does not."""

import itertools
import json
import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import ndtr

from shoal import sgd
from shoal.digits import rounded_up
from shoal.errors import BudgetError, ParameterError, PrecisionWarning, UnreachableError
from shoal.numerics.noise import GaussianRatio
from shoal.numerics.normal import gaussian_delta
from shoal.pairs.noise_profile import NoiseProfile
from shoal.sgd.run import Run

POINTS = np.linspace(-10, 16, 40_001)


def apart(here: NDArray[np.float64], there: NDArray[np.float64], square: float) -> NDArray[np.float64]:
    """Return ∫(aφ(x − μ) − bφ(x))₊ for all a and b: what an epoch with this μ² adds after each outcome."""
    if square == 0:
        return np.maximum(here - there, 0)
    mean = math.sqrt(square)
    point = (np.log(there) - np.log(here)) / mean
    return np.asarray(here * ndtr(mean / 2 - point) - there * ndtr(-mean / 2 - point))


def chosen_divergence(square: float, following: list[float], epsilon: float) -> float:
    """Return the greatest δ(ε) over all choosers of a second epoch by what the first one showed.

    Parameters
    ----------
    square : μ² of the first pass.
    following : the μ² that the second epoch may have; 0 is to stop.
    epsilon : ε.
    """
    here, there = (np.exp(-0.5 * (POINTS - mean) ** 2) / math.sqrt(2 * math.pi) for mean in (math.sqrt(square), 0.0))
    options = [apart(here, math.exp(epsilon) * there, each) for each in following]
    return float(np.trapezoid(np.max(options, axis=0), POINTS))  # after each outcome, what adds most


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_no_chooser_gets_past_the_filter(epsilon: float) -> None:
    delta = 1e-3
    budget = sgd.Filter(epsilon=epsilon, delta=delta)._most
    for square in (0.1 * budget, 0.4 * budget, 0.7 * budget):
        following = [share * (budget - square) for share in (0.0, 0.3, 1.0)]
        reached = chosen_divergence(square, following, epsilon)
        assert reached <= delta * (1 + 1e-9)
        assert reached >= 0.99999 * delta  # and nothing is lost: whoever uses it all reaches it
        assert chosen_divergence(square, [0.0, 1.1 * (budget - square)], epsilon) > delta


def test_a_fixed_number_of_epochs_does_not_cover_a_choice() -> None:
    """Whoever reports (ε, δ) of the epochs made, and stops by what was seen, is not (ε, δ)-DP on average."""
    epsilon, square = 0.5, 0.09
    one, two = (gaussian_delta(1 / math.sqrt(count * square), epsilon) for count in (1, 2))
    reached = chosen_divergence(square, [0.0, square], epsilon)
    assert one < 0.5 * two and reached > 1.9 * one
    assert reached == pytest.approx(two, rel=1e-4)  # what holds is that of the most that might have been made


def test_filter_counts() -> None:
    run = Run(examples=1000, batch_size=10, noise_multiplier=30)
    budget = sgd.Filter(epsilon=1, delta=1e-6)
    room = budget.left(run)
    assert room > 5
    for _ in range(room):
        assert budget.affords(run)
        budget.charge(run)
    assert not budget.affords(run) and budget.left(run) == 0 and 0.9 < budget.used <= 1
    with pytest.raises(BudgetError, match=r"1 more epochs of this run would exceed ε = 1 at δ = 1e-06.*room for 0"):
        budget.charge(run)
    # As many epochs fixed beforehand have the same ε: nothing is lost.
    fixed = NoiseProfile(1, GaussianRatio(15 / math.sqrt(room))).alone(1e-6)
    assert 0.9 < fixed <= 1 < NoiseProfile(1, GaussianRatio(15 / math.sqrt(room + 1))).alone(1e-6)
    again = sgd.Filter.from_dict(json.loads(json.dumps(budget.to_dict())))
    assert (again.used, again.epsilon, again.left(run)) == (budget.used, 1, 0)
    with pytest.raises(ParameterError, match='adjacency="zero-out", and the filter "replace"'):
        budget.charge(Run(examples=10, noise_multiplier=1, adjacency="zero-out"))


def test_a_filter_adds_up_what_differs() -> None:
    budget = sgd.Filter(epsilon=3, delta=1e-5, adjacency="zero-out")
    total = 0.0
    for noise, epochs, kind in itertools.product((5, 10.0, 40), (1, 3), ("batch", "example")):
        run = Run(
            examples=100,
            batch_size=4,
            noise_multiplier=noise,
            epochs=epochs,
            noise=kind,
            releases="sums",
            adjacency="zero-out",
        )
        budget.charge(run)
        total += epochs / (noise * (2 if kind == "example" else 1)) ** 2
    assert budget._spent == pytest.approx(total, rel=1e-12) and budget._spent >= total * (1 - 1e-15)


def quick(epochs: int) -> float:
    """Return the ε that an account of this run is charged with."""
    run = Run(examples=10_000, noise_multiplier=4, epochs=epochs)
    return run.sampler.epsilon(run, 1e-6)


@pytest.mark.slow
def test_an_account_with_a_budget_may_end_at_any_time() -> None:
    run = Run(examples=10_000, noise_multiplier=4)
    account = sgd.Account(run, delta=1e-6, budget=0.1)
    assert account.most is not None and account.most > 3 and account.epsilon == 0
    most = account.most
    assert quick(most) <= 0.1 < quick(most + 1)
    account.charge()
    # From the first epoch on, ε is that of all that might be made.
    assert account.epsilon == account.spent(most) == quick(most)
    found = account.guarantee()
    assert found is not None and found.run.epochs == most and found.at_most
    assert f"at most {most} epochs, replace" in repr(found) and "fixed beforehand" not in repr(found)
    assert any("that number was fixed beforehand" in str(line) for line in found.assumptions)
    assert f"holds for any number of epochs up to {most}" in repr(account)
    for _ in range(most - 1):
        account.charge()
    with pytest.raises(BudgetError, match=rf"{most} epochs are all that a budget of ε = 0.1"):
        account.charge()
    assert account.epochs == most
    again = sgd.Account.from_dict(json.loads(json.dumps(account.to_dict())))
    assert (again.most, again.budget, again.epochs, again.epsilon) == (most, 0.1, most, account.epsilon)
    with pytest.raises(UnreachableError, match=r"one epoch has ε = .* more than the budget of 0.01"):
        sgd.Account(run, delta=1e-6, budget=0.01)


@pytest.mark.slow
def test_no_account_has_more_epochs_than_its_budget_covers() -> None:
    run = Run(examples=10_000, noise_multiplier=4)
    with pytest.raises(BudgetError, match="100 epochs have begun"):
        sgd.Account(run, delta=1e-6, epochs=100, budget=0.1)
    fields = sgd.Account(run, delta=1e-6, epochs=2, budget=0.1).to_dict()
    assert sgd.Account.from_dict(fields).epochs == 2
    for change in ({"epochs": 50}, {"most": 1}, {"most": 50}, {"budget": 0.05}):
        with pytest.raises(BudgetError):
            sgd.Account.from_dict(fields | change)
    for name, value in (("most", None), ("budget", None), ("most", 2.5), ("budget", -1)):
        with pytest.raises(ParameterError):
            sgd.Account.from_dict(fields | {name: value})


@pytest.mark.parametrize("spent", [-50.0, math.nan, math.inf, "0", None])
def test_a_filter_is_not_read_with_less_than_nothing_spent(spent: object) -> None:
    fields = sgd.Filter(epsilon=1, delta=1e-6).to_dict()
    with pytest.raises(ParameterError, match="spent"):
        sgd.Filter.from_dict(fields | {"spent": spent})


def test_epsilon_is_said_to_hold_for_a_fixed_number_of_epochs() -> None:
    account = sgd.Account(Run(examples=1000, noise_multiplier=4), delta=1e-6)
    account.charge()
    found = account.guarantee()
    assert found is not None
    assert "holds if the number of epochs was fixed beforehand" in repr(account)
    assert "1 epoch fixed beforehand, replace" in repr(found)
    assert "the number of epochs was fixed beforehand, and not by what was seen" in found.explain()
    assert any("fixed beforehand" in line for line in found.to_dict()["assumptions"])


def test_a_training_that_ends_early_has_the_epsilon_of_its_plan() -> None:
    run = Run(examples=1000, noise_multiplier=4, epochs=5, sampling="fixed-order")
    account = sgd.Account(run, delta=1e-6)
    whole = account.spent(5)
    for _ in range(2):
        account.charge()
        assert account.epsilon == whole > account.spent(account.epochs)
    found = account.guarantee()
    assert found is not None and found.at_most and found.run.epochs == 5
    assert found.epsilon == sgd.guarantee(run, delta=1e-6).epsilon
    assert "at most 5 epochs" in repr(found)
    assert f"ε={rounded_up(account.spent(2), 3)} holds if exactly 2 epochs were fixed" in repr(account)
    again = sgd.Account.from_dict(json.loads(json.dumps(account.to_dict())))
    assert again.epsilon == whole
    for _ in range(3):
        account.charge()
    assert account.epsilon == whole and "holds if the number of epochs was fixed" in repr(account)
    account.charge()  # beyond the plan, on one's own responsibility
    assert account.epsilon == account.spent(6) > whole
    account.plan(8)
    assert account.epsilon == account.spent(8)


@pytest.mark.parametrize("delta", [1e-13, 1e-20, 1e-300])
def test_a_delta_too_small_for_a_computer(delta: float) -> None:
    run = Run(examples=1000, noise_multiplier=4)
    with pytest.warns(PrecisionWarning, match=r"is below 1e-12.*9\.4 standard deviations.*use delta=1e-12 or more"):
        sgd.Account(run, delta=delta)
    with pytest.warns(PrecisionWarning):
        sgd.PrivateLogisticRegression(noise_multiplier=4, delta=delta).fit([[0.0], [1.0]], [0, 1])
    found = sgd.guarantee(sgd.Run(examples=1000, noise_multiplier=4), delta=delta)
    assert any("a computer's is not fine enough for δ below 1e-12" in str(line) for line in found.assumptions)
    sgd.Account(run, delta=1e-12)  # without a warning
