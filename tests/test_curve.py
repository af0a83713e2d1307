"""What a curve shows of itself, and certificates and sweeps."""

import copy
import json
import math
import pickle
from typing import Any

import flint
import numpy as np
import pytest

import shoal
from shoal.amplification.clones import ApproximateProfile
from shoal.lower_limit import LowerBound
from shoal.pairs import ClonePair
from shoal.proofs.balls import precision
from shoal.proofs.clone_claim import CloneClaim

_GRID = [
    (0.1, 10**5), (0.5, 10**4), (1, 10**4), (1, 10**6), (2, 10**6), (4, 10**5), (4, 10**6), (6, 10**6), (6, 10**7),
    (8, 10**6), (1, 10**7), (1, 10**9), (2, 10**12),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("local_epsilon", "reports"), _GRID)
@pytest.mark.parametrize("bound", ["strong-clones", "clones"])
def test_answers_on_the_grid_are_proved_and_tight(local_epsilon: float, reports: int, bound: str) -> None:
    curve = shoal.amplify(local_epsilon=local_epsilon, reports=reports, bound=bound)
    for delta in (1e-6, 1e-20):
        bracket = curve.epsilon_bracket(delta)
        assert bracket.upper == curve.epsilon(delta)
        assert bracket.upper - bracket.lower <= max(1e-6 * bracket.lower, 1e-12)
        certificate = curve.certify(delta=delta)
        assert bracket.upper <= certificate.epsilon <= bracket.upper * (1 + 1e-9)
        assert certificate.verify()
        if bracket.lower > 0:
            # The lower end is too small to be true: in balls, δ there is more than asked for.
            pair = ClonePair(reports, float(local_epsilon), bound)  # type: ignore[arg-type]
            claim = pair.provable()
            assert isinstance(claim, CloneClaim)
            with precision(192):
                assert claim.at(bracket.lower, fineness=1e-4).upper() >= delta


@pytest.mark.parametrize("bound", ["strong-clones", "clones"])
def test_the_charge_for_an_approximate_randomizer_is_rounded_up(bound: str) -> None:
    """Where the pair gives almost nothing, δ is the charge, which is compared with its exact value in balls."""
    random = np.random.default_rng(5)
    for _ in range(100):
        local_epsilon, reports = float(random.uniform(0.1, 60)), int(random.integers(2, 10**9))
        profile = shoal.amplify(local_epsilon=local_epsilon, local_delta=1e-12, reports=reports, bound=bound).profile
        assert isinstance(profile, ApproximateProfile)
        epsilon = float(random.uniform(0, local_epsilon))
        with precision(200):
            local, central = flint.arb(local_epsilon).exp(), flint.arb(epsilon).exp()
            if bound == "clones":
                exact = (central + 1) * (1 + 1 / (2 * local)) * reports
            else:
                exact = (reports - 1) * (2 / local) * (1 + central) + 1
            exact *= flint.arb(1e-12)
            assert exact <= profile._charge(epsilon)
            assert profile._charge(epsilon) <= exact * (1 + 1e-12)


def test_the_lower_limit_is_computed_when_it_is_first_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def counted(*arguments: Any, reports: int, **given: Any) -> LowerBound:
        asked.append(reports)
        return shoal.lower_bound(*arguments, reports=reports, **given)

    monkeypatch.setattr("shoal.amplification.amplify.lower_bound", counted)
    curve = shoal.amplify(shoal.RandomizedResponse(categories=4, local_epsilon=1), reports=1000)
    assert "LowerBound" not in repr(curve)
    assert curve.epsilon(1e-6) > 0
    assert asked == []
    limit = curve.lower
    assert limit is not None
    assert curve.lower is limit
    assert asked == [1000]
    assert shoal.amplify(local_epsilon=0, reports=9).lower is None


@pytest.mark.slow
def test_curves_are_values_whether_or_not_their_limit_is_known() -> None:
    """Equal, with equal hashes, before and after `lower` is computed, and after a journey to another process."""
    for kind in ({"local_epsilon": 1.0}, {"randomizer": shoal.RandomizedResponse(categories=4, local_epsilon=1)}):
        first, second = (shoal.amplify(**kind, reports=1000) for _ in range(2))
        unread = pickle.loads(pickle.dumps(first))
        limit = first.lower
        assert limit is not None
        for other in (second, unread, pickle.loads(pickle.dumps(first)), copy.deepcopy(first)):
            assert other == first
            assert hash(other) == hash(first)
            assert repr(other) == repr(first)
            assert other.lower == limit
            assert other.epsilon(1e-6) == first.epsilon(1e-6)
        assert first != shoal.amplify(**kind, reports=1001)


@pytest.mark.slow
@pytest.mark.parametrize("bound", ["strong-clones", "clones"])
def test_certificates_of_approximate_and_decomposed_randomizers(bound: str) -> None:
    curve = shoal.amplify(local_epsilon=1, local_delta=1e-12, reports=10_000, bound=bound)
    certificate = curve.certify(delta=1e-6)
    assert certificate.epsilon <= curve.epsilon(1e-6) * (1 + 1e-9)
    assert shoal.Certificate.from_json(certificate.to_json()).verify()
    response = shoal.amplify(
        shoal.RandomizedResponse(categories=20, local_epsilon=1), reports=5000, bound="decomposition"
    )
    certificate = response.certify(delta=1e-6)
    assert certificate.epsilon <= response.epsilon(1e-6) * (1 + 1e-9)
    assert shoal.Certificate.from_json(certificate.to_json()).verify()


def test_approximate_dp_floor_is_told() -> None:
    curve = shoal.amplify(local_epsilon=1, local_delta=1e-10, reports=10_000)
    floor = curve.delta(0.9)
    assert floor > 1e-10
    assert 0.9 < curve.epsilon(floor / 2) < 1  # on the way to the local guarantee
    assert curve.delta(1) == curve.delta(5) == 1e-10
    with pytest.raises(shoal.errors.UnreachableError, match="use a larger delta"):
        curve.epsilon(1e-11)
    for question in (lambda: curve.renyi(2), lambda: curve.epsilon_bracket(1e-6)):
        with pytest.raises(shoal.errors.NoPairError):
            question()


@pytest.mark.slow
def test_to_dict_and_pictures() -> None:
    curve = shoal.amplify(local_epsilon=4, reports=10**5)
    facts = curve.to_dict(delta=1e-6, certify=True)
    assert json.loads(json.dumps(facts)) == facts
    assert facts["certified"]
    assert facts["best_possible"] <= facts["epsilon_bracket"][0] <= facts["epsilon"]
    assert "<table>" in curve._repr_html_()
    others = shoal.compare(local_epsilon=4, reports=10**5, delta=1e-6)[1:]
    axes = curve.plot(others=others)
    assert axes.get_xlabel() == "δ"
    assert len(axes.get_lines()) == 1 + len(others) + 3  # the best possible, ε₀, and the dot at δ
    for line in axes.get_lines():
        heights = np.asarray(line.get_ydata(), dtype=float)
        assert np.nanmin(heights) > 0


@pytest.mark.slow
def test_printed_numbers_are_rounded_up() -> None:
    """Six digits of a guarantee are never below the guarantee."""
    random = np.random.default_rng(7)
    for _ in range(50):
        curve = shoal.amplify(local_epsilon=float(random.uniform(0.1, 5)), reports=int(random.integers(10, 10**6)))
        text = repr(curve).split("ε=")[1].split(" ")[0]
        assert float(text) >= curve.epsilon(1e-6)


def test_sweeps_agree_with_single_answers() -> None:
    table = shoal.sweep(local_epsilon=[0.5, 9], reports=[1e3, 1e6], delta=[1e-6, 1e-9], bound="clones-closed-form")
    assert len(table) == 8
    rows: list[dict[str, Any]] = list(table)
    for row in rows:
        if math.isnan(row["epsilon"]):
            assert row["local_epsilon"] == 9 or row["reports"] == 1000
        else:
            curve = shoal.amplify(
                local_epsilon=row["local_epsilon"], reports=row["reports"], bound="clones-closed-form"
            )
            assert row["epsilon"] == curve.epsilon(row["delta"])
    assert table.to_csv().splitlines()[0] == "local_epsilon,reports,delta,epsilon"
    assert "<table>" in table._repr_html_()
    with pytest.raises(shoal.ParameterError):
        shoal.sweep(local_epsilon=[-1], reports=[10])


@pytest.mark.slow
def test_large_sweeps_use_all_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shoal.sweeps._WORTH_A_POOL", 300)
    local_epsilons = np.linspace(0.1, 4, 10)
    table = shoal.sweep(local_epsilon=local_epsilons, reports=np.arange(100, 145))
    assert len(table) == 10 * 45
    assert table["epsilon"][7] == shoal.amplify(local_epsilon=local_epsilons[0], reports=107).epsilon(1e-6)
