"""Several rounds in balls: dominating losses, their sum, and certificates of compositions and ledgers."""

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import pytest

import shoal
from shoal.proofs.balls import ball, precision
from shoal.proofs.clone_claim import CloneClaim
from shoal.proofs.lattice import LossBalls, dominating, lattice_index, short, summed, tilt_for
from shoal.proofs.rounds_claim import RoundsClaim, _thinned
from tests.exhaustive import representative

_STEP = 0.125


def heights(claim: CloneClaim, points: int) -> list[Any]:
    return [claim.at(_STEP * index, fineness=0.0).upper() for index in range(points + 1)]


def direct(losses: LossBalls, times: int, epsilon: float) -> Any:
    """Return δ(ε) of so many rounds, by adding up all combinations of their losses."""
    one = dict(zip(losses.multiples, losses.masses, strict=True))
    sums = {0: ball(1.0)}
    for _ in range(times):
        after: dict[int, Any] = {}
        for before, weight in sums.items():
            for index, mass in one.items():
                after[before + index] = after.get(before + index, 0) + weight * mass
        sums = after
    gains = (mass * (1 - (ball(epsilon) - ball(_STEP) * index).exp()).max(ball(0.0)) for index, mass in sums.items())
    return sum(gains, ball(0.0)) + times * losses.infinite


def test_dominating_losses_have_the_heights_and_mass_one() -> None:
    claim = CloneClaim(60, 1.0, 0.0, "clones")
    with precision(128):
        exact = heights(claim, 6)
        losses = dominating(_STEP, 1, range(7), exact)
        whole = sum(losses.masses) + losses.infinite
        assert whole.contains(1)
        for index in range(7):
            assert abs(direct(losses, 1, _STEP * index) - exact[index]) < 1e-30
        raised = [*exact[:2], exact[2] * 1.5, *exact[3:]]  # not convex: the hull leaves it out
        again = dominating(_STEP, 1, range(7), raised)
        assert all(mass >= 0 for mass in again.masses)
        for index in (0, 1, 3, 4):
            assert direct(again, 1, _STEP * index) > exact[index] * (1 - 1e-12)


def test_points_above_the_chord_of_the_mirror_image_are_lowered() -> None:
    with precision(128):
        losses = dominating(_STEP, 1, range(3), [ball(0.5), ball(0.5), ball(0.0)])
        whole = sum(losses.masses) + losses.infinite
        assert whole.contains(1)
        first = ((ball(_STEP) * 2).exp() - 1) / ((ball(_STEP) * 2).exp() + 1)
        assert abs(direct(losses, 1, 0.0) - first) < 1e-30


@pytest.mark.parametrize(("stride", "multiples"), [(1, range(8)), (2, range(4)), (1, (0, 1, 2, 3, 5, 8)), (2, (0, 4))])
@pytest.mark.parametrize("epsilon", [0.3, 0.75])
def test_the_transform_is_at_least_the_sum(stride: int, multiples: Sequence[int], epsilon: float) -> None:
    claim = CloneClaim(60, 1.0, 0.0, "strong-clones")
    with precision(128):
        exact = [claim.at(_STEP * stride * index, fineness=0.0).upper() for index in multiples]
        losses = dominating(_STEP, stride, multiples, exact)
        truth = direct(losses, 3, epsilon)
        tilt, nodes = tilt_for([(losses, 3)], _STEP, epsilon)
        value = summed([(losses, 3)], _STEP, tilt, nodes, epsilon)
        # Between lattice points δ of the sum is linear in e^ε, and at them it is this.
        assert truth * (1 - 1e-20) <= value
        assert value <= truth * (1 + 1e-6)
        for tilt, nodes in ((0.5, 31), (3.0, 101), (20.0, 11)):
            assert not summed([(losses, 3)], _STEP, tilt, nodes, epsilon) < truth * (1 - 1e-20)


@pytest.mark.slow
@pytest.mark.parametrize(
    "rounds",
    representative(
        [
            [(shoal.amplify(local_epsilon=2, reports=10**6), 365)],
            [(shoal.amplify(local_epsilon=3, reports=100), 10)],
            [(shoal.amplify(shoal.RandomizedResponse(categories=10, local_epsilon=2), reports=10**4), 30)],
            [(shoal.amplify(local_epsilon=1, local_delta=1e-14, reports=10**4), 30)],
            [(shoal.amplify(local_epsilon=1, local_delta=1e-14, reports=10**4), 365)],
            [
                (shoal.amplify(local_epsilon=2, reports=10**6), 50), (shoal.amplify(local_epsilon=4, reports=10**6), 5),
                (shoal.amplify(shoal.Rappor(categories=9, local_epsilon=1), reports=10**5, bound="blanket"), 1),
            ],
        ],
        3,
    ),
    ids=str,
)  # fmt: skip
def test_compositions_are_proved(rounds: list[tuple[shoal.PrivacyCurve, int]]) -> None:
    curve = shoal.compose(rounds)
    certificate = curve.certify(delta=1e-6)
    assert curve.epsilon(1e-6) == certificate.printed_epsilon
    assert certificate.epsilon <= certificate.printed_epsilon * (1 + 1e-3)
    if bracket := curve.to_dict(delta=1e-6)["epsilon_bracket"]:
        assert certificate.epsilon >= bracket[0]
    again = shoal.Certificate.from_json(certificate.to_json())
    assert again == certificate
    assert again.verify()
    assert certificate.claim.theorem == curve.citation
    assert certificate.claim.assumptions == curve.assumptions


@pytest.mark.slow
def test_witnesses_of_compositions_are_checked() -> None:
    claim = RoundsClaim(((CloneClaim(1000, 1.0, 0.0, "clones"), 5),))
    certificate = shoal.Certificate.prove(claim, epsilon=0.9, delta=1e-4)
    good = dict(certificate.witness)
    with precision(128):
        assert claim.upper(0.9, good) <= 1e-4
        for name, bad in (
            ("step", 1e-200), ("step", 0.1), ("grid", []), ("grid", [[1, 2]]), ("grid", [[0, 5, []]]), ("nodes", 4),
            ("grid", [[1, 10**9, []]]), ("nodes", 10**9), ("tilt", -1.0), ("fineness", 0.0),
            ("grid", [[2**20, 2**20, []]]), ("grid", [[1, 5, 7]]), ("grid", [[1, 5, [5]]]), ("grid", [[1, 5, [-1]]]),
            ("grid", [[1, 5, [7, 7]]]), ("grid", [[1, 5, [2**22]]]), ("grid", [[1, 5, [7.0]]]), ("grid", [[1, 5, "7"]]),
            ("grid", [[1, 5, [*range(6, 1000)]]]), ("grid", [[2**20, 1, [3]]]),
        ):  # fmt: skip
            with pytest.raises(shoal.ParameterError):
                claim.upper(0.9, good | {name: bad})
    assert short(0.1) <= 0.1
    assert claim.upper(5.0, good) == 0


@pytest.mark.parametrize(
    "content",
    [
        {"parts": []},
        {"parts": 7},
        {},
        {"parts": [{"times": 1}]},
        {"parts": [{"times": 0, "claim": {"name": "clones"}}]},
    ],
)
def test_compositions_of_nothing_are_refused(content: dict[str, Any]) -> None:
    with pytest.raises((shoal.ParameterError, shoal.errors.FormatError, TypeError)):
        RoundsClaim.of_dict(content)


def test_rounds_without_a_proof_say_which() -> None:
    curve = shoal.amplify(local_epsilon=0.5, reports=10**6, bound="clones-closed-form")
    with pytest.raises(shoal.errors.NoPairError, match="one of the rounds has no proof"):
        curve.repeated(10, method="advanced").certify(delta=1e-6)


@pytest.mark.slow
def test_ledgers_are_proved() -> None:
    book = shoal.Ledger()
    with pytest.raises(shoal.errors.NoPairError, match="empty ledger"):
        book.certify(delta=1e-6)
    for reports in (10_000, 20_000, 10_000):
        book.record(shoal.amplify(local_epsilon=1, reports=reports))
    certificate = book.certify(delta=1e-6)
    assert certificate.printed_epsilon == book.spent(1e-6)
    assert isinstance(certificate.claim, RoundsClaim)
    assert sorted(times for _, times in certificate.claim.parts) == [1, 2]
    assert shoal.Certificate.from_json(certificate.to_json()).verify()


def test_points_far_out_are_ever_farther_apart() -> None:
    assert _thinned(60, 48, 1.05) == (48, [51, 54, 57, 60])


def test_the_lattice_point_before_epsilon_is_found_exactly() -> None:
    """The double below index·step, which is not a double itself, has a quotient that rounds up to the index."""
    step, index = short(0.1), 2**24 + 1
    epsilon = math.nextafter(step * index, 0)
    assert epsilon < Fraction(step) * index
    assert math.floor(epsilon / step) == index
    assert lattice_index(epsilon, step) == index - 1
