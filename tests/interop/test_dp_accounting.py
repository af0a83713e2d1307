"""What comes from dp-accounting is never below the truth: exact Gaussian curves, in balls, and their compositions."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flint import arb, ctx

import shoal
from shoal.composition.central_curve import CentralCurve
from shoal.interop.dp_accounting import from_event, from_loss_distribution
from shoal.privacy_profile import ListedProfile
from shoal.review.sources import ledger_review

dpa = pytest.importorskip("dp_accounting")
pld = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")


def _exact(shift: float, epsilon: float) -> float:
    """Return δ(ε) of normal noise with this shift over its deviation (Balle and Wang, arXiv 1805.06530), exactly."""
    before, ctx.prec = ctx.prec, 300
    try:
        mu, point = arb(shift), arb(epsilon)

        def tail(at: arb) -> arb:
            return (at / arb(2).sqrt()).erfc() / 2

        return float((tail(point / mu - mu / 2) - point.exp() * tail(point / mu + mu / 2)).mid())
    finally:
        ctx.prec = before


def _never_below(curve: shoal.PrivacyCurve, shift: float, *, within: float, above: float = 1e-8) -> None:
    """Compare δ at many ε: never below the exact one, and close to it where that is above what rounding is charged."""
    for epsilon in np.linspace(0, 1.1 * curve.local_epsilon, 40).tolist():
        exact = _exact(shift, epsilon)
        assert curve.delta(epsilon) >= exact, epsilon
        if exact > above:
            assert curve.delta(epsilon) <= within * exact, epsilon
    for delta in (1e-3, max(1e-6, above), max(1e-9, above)):
        assert _exact(shift, curve.epsilon(delta)) <= delta


@pytest.mark.slow
@pytest.mark.parametrize("deviation", [0.5, 1.0, 7.0, 100.0])
@pytest.mark.parametrize("interval", [1e-3, 1e-4])
def test_a_gaussian_distribution_for_replacement(deviation: float, interval: float) -> None:
    losses = pld.from_gaussian_mechanism(deviation, value_discretization_interval=interval)
    curve = from_loss_distribution(losses, adjacency="replace", compositions=1)
    _never_below(curve, 1 / deviation, within=1.02)
    # What dp-accounting says itself is not more than a thousandth lower.
    assert curve.epsilon(1e-6) == pytest.approx(losses.get_epsilon_for_delta(1e-6), rel=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", ["add-or-remove", "zero-out"])
@pytest.mark.parametrize("deviation", [1.0, 10.0])
def test_two_steps_are_a_replacement(adjacency: str, deviation: float) -> None:
    """A sum that changes by one when a person is added changes by two when values are replaced: exact, and reached."""
    curve = from_loss_distribution(pld.from_gaussian_mechanism(deviation), adjacency=adjacency, compositions=1)
    _never_below(curve, 2 / deviation, within=2.0)


@pytest.mark.slow
def test_directions_that_differ_count_by_the_worse() -> None:
    losses = pld.from_gaussian_mechanism(1.0, sampling_prob=0.2)
    assert not losses._symmetric
    curve = from_loss_distribution(losses, adjacency="replace", compositions=1)
    for epsilon in (0.0, 0.1, 0.5, 1.0, 2.0):
        assert curve.delta(epsilon) >= losses.get_delta_for_epsilon(epsilon)


@pytest.mark.parametrize("noise", [2.0, 50.0])
def test_a_gaussian_event_is_for_replaced_values(noise: float) -> None:
    _never_below(from_event(dpa.GaussianDpEvent(noise)), 2 / noise, within=1.02)


@pytest.mark.slow
def test_composed_events_are_never_below_the_exact() -> None:
    """Gaussian mechanisms together are one, with the root of the sum of the squares of their shifts."""
    event = dpa.ComposedDpEvent(
        [dpa.SelfComposedDpEvent(dpa.GaussianDpEvent(60.0), 100), dpa.GaussianDpEvent(10.0), dpa.NoOpDpEvent()]
    )
    _never_below(from_event(event), math.sqrt(100 * (2 / 60) ** 2 + (2 / 10) ** 2), within=1.02)


@pytest.mark.slow
def test_a_composed_distribution_is_charged_for_its_transforms() -> None:
    single = pld.from_gaussian_mechanism(40.0)
    composed = from_loss_distribution(single.self_compose(400), adjacency="replace", compositions=400)
    _never_below(composed, math.sqrt(400) / 40, within=1.1, above=1e-6)
    unsaid = from_loss_distribution(single.self_compose(400), adjacency="replace", compositions=1)
    assert composed.local_delta > 10 * unsaid.local_delta


@pytest.mark.slow
def test_shuffled_and_central_rounds_add_up_and_are_never_below_the_exact() -> None:
    """For two values, everything is listed: randomized response of one person alone, and normal noise."""
    daily = shoal.amplify(local_epsilon=1, reports=1, bound="strong-clones")
    noisy = from_event(dpa.GaussianDpEvent(4.0))
    both = shoal.compose([(daily, 3), noisy])
    lie = 1 / (1 + math.e)
    for epsilon in (0.0, 0.5, 1.0, 2.0, 3.0):
        # The sum of three losses of ±1 is 3 − 2j with j lies; given it, normal noise has the rest.
        exact = 0.0
        for lies in range(4):
            chance = math.comb(3, lies) * lie**lies * (1 - lie) ** (3 - lies)
            rest = epsilon - (3 - 2 * lies)
            height = _exact(0.5, abs(rest))
            # H(1/t) = 1 − 1/t + H(t)/t, as both directions are the same.
            exact += chance * (height if rest >= 0 else 1 - math.exp(rest) + math.exp(rest) * height)
        assert exact <= both.delta(epsilon) <= 1.02 * exact, epsilon


@pytest.mark.slow
@pytest.mark.parametrize(
    "event",
    [
        dpa.LaplaceDpEvent(10.0),
        dpa.PoissonSampledDpEvent(0.1, dpa.GaussianDpEvent(3.0)),
        dpa.PoissonSampledDpEvent(0.1, dpa.LaplaceDpEvent(3.0)),
        dpa.RandomizedResponseDpEvent(0.5, 4),
        dpa.dp_event.DiscreteLaplaceDpEvent(0.5, 1),
        pytest.param(dpa.dp_event.MixtureOfGaussiansDpEvent(5.0, [0.0, 1.0], [0.5, 0.5]), marks=pytest.mark.exhaustive),
        dpa.dp_event.TruncatedSubsampledGaussianDpEvent(1000, 0.01, 20, 2.0),
    ],
    ids=lambda event: type(event).__name__,
)
def test_events_cost_at_least_what_their_accountant_says(event: Any) -> None:
    curve = shoal.compose([(from_event(event), 20)])
    for relation in dpa.NeighboringRelation:
        accountant = dpa.pld.PLDAccountant(relation)
        if accountant.supports(event):
            accountant.compose(event, 20)
            assert curve.epsilon(1e-6) >= accountant.get_epsilon(1e-6) * (1 - 1e-4)


def test_a_pure_mechanism_stays_what_it_is() -> None:
    losses = pld.from_laplace_mechanism(2.0)
    replaced = from_loss_distribution(losses, adjacency="replace", compositions=1)
    assert replaced.local_epsilon == pytest.approx(0.5, abs=2e-4)
    assert from_event(dpa.LaplaceDpEvent(2.0)).local_epsilon == pytest.approx(1.0, abs=2e-2)
    with pytest.raises(shoal.errors.UnreachableError, match="use a larger delta"):
        replaced.epsilon(0)


@pytest.mark.parametrize(
    ("source", "word"),
    [
        (lambda: pld.from_gaussian_mechanism(1.0, pessimistic_estimate=False), "optimistic"),
        (lambda: pld.PrivacyLossDistribution.create_from_rounded_probability({0: 0.4}, 0.1, 1e-4), "is missing"),
        (lambda: pld.PrivacyLossDistribution.create_from_rounded_probability({0: 1.2, 1: -0.2}, 0, 1e-4), "below 0"),
        (lambda: pld.PrivacyLossDistribution.create_from_rounded_probability({0: math.nan}, 0, 1e-4), "not numbers"),
        (lambda: "losses", "no PrivacyLossDistribution"),
    ],
)
def test_what_is_no_guarantee_is_refused(source: Any, word: str) -> None:
    with pytest.raises(shoal.ParameterError, match=word):
        from_loss_distribution(source(), adjacency="replace", compositions=1)


def test_the_adjacency_has_to_be_said() -> None:
    losses = pld.from_laplace_mechanism(1.0)
    with pytest.raises(TypeError, match="adjacency"):
        from_loss_distribution(losses, compositions=1)  # type: ignore[call-arg]
    with pytest.raises(shoal.ParameterError, match="adjacency"):
        from_loss_distribution(losses, adjacency="user", compositions=1)


@pytest.mark.parametrize(
    ("event", "word"),
    [
        (dpa.NonPrivateDpEvent(), "no privacy"),
        (dpa.GaussianDpEvent(0.0), "adds no noise"),
        (dpa.NoOpDpEvent(), "releases nothing"),
        (dpa.ZCDpEvent(rho=0.1), "knows no privacy losses"),
        (dpa.UnsupportedDpEvent(), "knows no privacy losses"),
        (1.0, "no DpEvent"),
    ],
    ids=str,
)
def test_events_without_losses_are_refused(event: Any, word: str) -> None:
    with pytest.raises(shoal.ParameterError, match=word):
        from_event(event)


def test_a_ledger_keeps_a_central_release(tmp_path: Path) -> None:
    """The file has all that is needed: dp-accounting is not asked again."""
    path = tmp_path / "ledger.json"
    daily, noisy = shoal.amplify(local_epsilon=1, reports=10_000), from_event(dpa.GaussianDpEvent(50.0))
    ledger = shoal.Ledger(path)
    ledger.record(daily, label="monday", rounds=3)
    with ledger.budget(noisy, epsilon=1, delta=1e-6, label="a noisy count", planned=True):
        pass
    again = shoal.Ledger(path)
    assert again.spent(1e-6) == ledger.spent(1e-6) == shoal.compose([(daily, 3), noisy]).epsilon(1e-6)
    assert "GaussianDpEvent(noise_multiplier=50.0), central" in again.entries[1].description
    (curve, _), *_ = again.entries[1].rounds
    assert isinstance(curve, CentralCurve)
    assert curve.profile == noisy.profile
    assert path.stat().st_size < 40_000
    assert again.to_dict() == json.loads(path.read_text())
    with pytest.raises(shoal.errors.NoPairError, match="planned=True"):
        shoal.Ledger().affords(noisy, epsilon=1, delta=1e-6)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"deltas": [0.1, 0.2]}, "must not grow"),
        ({"epsilons": [0.5, 1.0]}, "ascend from 0"),
        ({"epsilons": [0.0]}, "as many"),
        ({"epsilons": "all"}, "lists of floats"),
        ({"mechanism": ""}, "a line of text"),
        ({"more": 1}, "nothing else"),
    ],
)
def test_a_ledger_refuses_a_central_release_that_was_changed(change: dict[str, Any], word: str) -> None:
    record = CentralCurve.of(ListedProfile((0.0, 1.0), (0.2, 0.0)), mechanism="m", source="s")
    part = {"times": 1, **record.to_record()}
    whole = {"time": "2026-01-01T00:00:00Z", "label": "", "rounds": [part]}
    document = {"format": "shoal-ledger", "version": 1, "budget": None, "entries": [whole]}
    assert len(shoal.Ledger.from_json(json.dumps(document))) == 1
    part.update(change)
    with pytest.raises(shoal.errors.LedgerError, match=word):
        shoal.Ledger.from_json(json.dumps(document))


def test_there_is_no_certificate_and_the_reason_is_said() -> None:
    noisy = from_event(dpa.GaussianDpEvent(50.0))
    with pytest.raises(shoal.errors.NoPairError, match="computed by another library, in floating point"):
        noisy.certify(delta=1e-6)
    both = shoal.compose([shoal.amplify(local_epsilon=1, reports=1000), noisy])
    with pytest.raises(shoal.errors.NoPairError, match="one of the rounds has no proof in ball arithmetic"):
        both.certify(delta=1e-6)
    assert both.reports == 1000


def test_a_review_of_central_releases_is_refused() -> None:
    """Its sentences are about shufflers and reports, and would not be true."""
    ledger = shoal.Ledger()
    ledger.record(from_event(dpa.GaussianDpEvent(50.0)))
    with pytest.raises(shoal.ParameterError, match="central"):
        ledger_review(ledger, title="a count", delta=1e-6)
