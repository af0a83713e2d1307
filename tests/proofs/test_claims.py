"""Claims of one round: their W is that of the pair or the blanket, and what they prove is what was printed."""

import math
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest

import shoal
from shoal import mechanisms
from shoal.proofs.balls import ball, precision
from shoal.proofs.blanket_claim import DESIGNS, MatrixClaim, SupportClaim
from shoal.proofs.claim import Claim, RoundClaim, claim_from, digest
from shoal.proofs.clone_claim import CloneClaim, DecompositionClaim, RatioClaim
from shoal.proofs.one_bit_claim import OneBitClaim
from shoal.proofs.work import limited
from tests.exhaustive import representative

_MECHANISMS: list[Any] = [
    kind(categories=categories, local_epsilon=local)
    for kind in (
        mechanisms.RandomizedResponse, mechanisms.HadamardResponse, mechanisms.RecursiveHadamardResponse,
        mechanisms.SubsetSelection, mechanisms.ProjectiveGeometryResponse, mechanisms.PrivateIndependentRappor,
        mechanisms.LocalHashing, mechanisms.UnaryEncoding, mechanisms.Rappor,
    )
    for categories, local in ((5, 1.0), (100, 4.0))
]  # fmt: skip
_MECHANISMS.append(mechanisms.HadamardResponse(categories=5, local_epsilon=1, blocks=1))
_MECHANISMS.append(mechanisms.OneBitMean(local_epsilon=2))
_LN_2 = math.nextafter(math.log(2), 1)
_MATRIX = mechanisms.MatrixRandomizer([[0.6, 0.3, 0.1], [0.2, 0.6, 0.2], [0.1, 0.3, 0.6]])


@pytest.mark.parametrize("mechanism", [*_MECHANISMS, _MATRIX], ids=str)
@pytest.mark.parametrize("epsilon", [0.0, 0.3])
def test_w_is_that_of_the_likelihoods(mechanism: Any, epsilon: float) -> None:
    claim = mechanism.claim(1000)
    pairs = [way for each in mechanism.blanket for way in (each, each.swapped)]
    known = {tuple(sorted(_rounded(each.values(epsilon), each.probabilities))) for each in pairs}
    with precision(128):
        growth = ball(epsilon).exp()
        ours = {tuple(sorted(_rounded(each.values, each.probabilities))) for each in claim.summands(growth)}
    assert known <= ours if mechanism is _MATRIX else ours <= known


def _rounded(values: Any, probabilities: Any) -> list[tuple[str, str]]:
    """Return the values with their probabilities to nine digits; equal values once, and none that never happens."""
    sums: dict[str, float] = {}
    for value, probability in zip(values, probabilities, strict=True):
        shown = f"{float(value) + 0.0:.9g}".replace("-0", "0") if abs(float(value)) < 1e-12 else f"{float(value):.9g}"
        sums[shown] = sums.get(shown, 0.0) + float(probability)
    return [(value, f"{probability:.9g}") for value, probability in sums.items() if probability]


@pytest.mark.slow
@pytest.mark.parametrize(("reports", "delta"), [(1_000, 1e-6), (10**6, 1e-20), (10**9, 1e-6)])
def test_tables_with_many_pairs_are_proved_to_a_millionth(reports: int, delta: float) -> None:
    weights = np.exp(np.random.default_rng(0).uniform(0, 2, size=(24, 32)))
    curve = shoal.amplify(shoal.MatrixRandomizer(weights / weights.sum(axis=1, keepdims=True)), reports=reports)
    certificate = curve.certify(delta=delta)
    assert curve.epsilon(delta) <= certificate.epsilon <= curve.epsilon(delta) * (1 + 1e-6)
    assert shoal.Certificate.from_json(certificate.to_json()).verify()


def test_a_proof_that_takes_too_much_work_is_given_up_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shoal.proofs.certificate.limited", lambda _: limited(1_000))
    curve = shoal.amplify(shoal.RandomizedResponse(categories=5, local_epsilon=1), reports=10**6)
    with pytest.raises(shoal.errors.UnreachableError, match="more work or memory to prove than a certificate may"):
        curve.certify(delta=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mechanism", "setting"),
    representative(product([*_MECHANISMS, _MATRIX], [(30, 1e-3), (3000, 1e-6), (10**7, 1e-9)]), len(_MECHANISMS) + 1),
    ids=str,
)
def test_every_finite_mechanism_is_proved(mechanism: Any, setting: tuple[int, float]) -> None:
    reports, delta = setting
    curve = shoal.amplify(mechanism, reports=reports, bound="blanket")
    certificate = curve.certify(delta=delta)
    assert certificate.printed_epsilon == curve.epsilon(delta)
    assert curve.epsilon_bracket(delta).lower <= certificate.epsilon
    assert certificate.epsilon <= certificate.printed_epsilon * (1 + 1e-5)
    assert len(certificate.to_json()) < 200_000
    assert shoal.Certificate.from_json(certificate.to_json()).verify()
    assert certificate.claim.theorem == curve.citation
    assert certificate.claim.assumptions == curve.assumptions


@pytest.mark.parametrize(
    "curve",
    [
        shoal.amplify(local_epsilon=1, reports=1000),
        shoal.amplify(local_epsilon=1, reports=1000, bound="clones"),
        shoal.amplify(local_epsilon=1, local_delta=1e-10, reports=1000),
        shoal.amplify(local_epsilon=1, local_delta=1e-10, reports=1000, bound="clones"),
        shoal.amplify(shoal.RandomizedResponse(categories=9, local_epsilon=1), reports=100, bound="decomposition"),
    ],
    ids=str,
)
def test_certificates_have_the_words_of_the_catalogue(curve: shoal.PrivacyCurve) -> None:
    claim = curve.claim()
    assert claim.theorem == curve.citation
    assert claim.assumptions == curve.assumptions


def test_a_mechanism_of_ones_own_is_claimed_by_its_design() -> None:
    class Odd(mechanisms.RandomizedResponse):
        """Not registered, and with another name than its design."""

    mine = Odd(categories=7, local_epsilon=1)
    assert mine.claim(100).mechanism == "randomized-response"
    object.__setattr__(mine, "design", mechanisms.HadamardResponse(categories=7, local_epsilon=1).design)
    claim = mine.claim(100)
    assert claim.mechanism == "design"
    assert claim.parameters["outputs"] == mine.design.outputs


def test_claims_come_back_from_their_plain_values() -> None:
    for claim in (
        CloneClaim(10, 1.0, 1e-9, "clones"), RatioClaim(10, 0.5, 1.0), DecompositionClaim(10, 0.05, 0.4, 1.0),
        SupportClaim(10, 1.0, "randomized-response", {"categories": 5}), MatrixClaim(10, _LN_2, ((2, 1), (1, 2))),
    ):  # fmt: skip
        assert claim_from(claim.to_dict()) == claim
        assert hash(claim) == hash(claim_from(claim.to_dict()))


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: CloneClaim(0, 1.0, 0.0, "clones"), "reports"),
        (lambda: CloneClaim(5, 1, 0.0, "clones"), "local_epsilon"),
        (lambda: CloneClaim(5, math.nan, 0.0, "clones"), "local_epsilon"),
        (lambda: CloneClaim(5, 1.0, 2.0, "clones"), "local_delta"),
        (lambda: CloneClaim(5, 1.0, 0.0, "weak"), "family"),
        (lambda: RatioClaim(5, 2.0, 1.0), "log_ratio"),
        (lambda: DecompositionClaim(5, 0.3, 0.9, 3.0), "no randomizer"),
        (lambda: DecompositionClaim(5, 0.0, 0.9, 3.0), "greater than 0"),
        (lambda: SupportClaim(5, 1.0, "unknown", {}), "no mechanism"),
        (lambda: SupportClaim(5, 1.0, "randomized-response", {"categories": 1}), "categories"),
        (lambda: SupportClaim(5, 1.0, "randomized-response", {}), "parameters"),
        (lambda: SupportClaim(5, 1.0, "hadamard-response", {"categories": 9, "blocks": 3}), "power of two"),
        (lambda: SupportClaim(5, 1.0, "subset-selection", {"categories": 3, "subset_size": 3}), "fewer"),
        (lambda: SupportClaim(5, 1.0, "local-hashing", {"categories": 3, "buckets": 10**19}), "buckets"),
        (
            lambda: SupportClaim(5, 1.0, "design", {"outputs": 5, "supporting": 4, "common": 1, "blocks": 1}),
            "no design",
        ),
        (lambda: MatrixClaim(5, 0.5, ((2, 1), (1, 2))), "differ by more"),
        (lambda: MatrixClaim(5, 1.0, ((2, 1), (1, 2))), "larger than the least"),
        (lambda: MatrixClaim(50, 3.0, ((1, 1), (1, 1))), "larger than the least"),
        (lambda: OneBitClaim(5, 1.0, 1, 2, 4), "larger than the least"),
        (lambda: MatrixClaim(5, 1.0, ((2, 0), (1, 2))), "weight"),
        (lambda: MatrixClaim(5, 1.0, ((2, 1),)), "rows"),
        (lambda: MatrixClaim(5, 1.0, ((1,) * 200,) * 100), "entries"),
        (lambda: claim_from({"name": "nothing"}), "no claim is called"),
        (lambda: claim_from(7), "object with a name"),
    ],
)  # fmt: skip
def test_claims_that_state_nothing_are_refused(make: Any, match: str) -> None:
    with pytest.raises((shoal.ParameterError, shoal.errors.FormatError), match=match):
        make()


def test_digests_are_half_of_sha_256() -> None:
    assert digest("((3, 1), (1, 3))") == "8035707842845bb4081773d6211977d9"


def test_a_name_belongs_to_one_claim() -> None:
    with pytest.raises(shoal.ParameterError, match="belongs to CloneClaim already"):
        type("Other", (Claim,), {}, name="clones")


def test_every_design_of_the_house_has_a_mechanism() -> None:
    names = {row.name for row in map(mechanisms.registration_of, _MECHANISMS)}  # type: ignore[union-attr]
    assert set(DESIGNS) == names | {"design"}


def test_a_chord_to_the_local_guarantee_is_below_the_smallest_total() -> None:
    claim = CloneClaim(10_000, 1.0, 1e-12, "strong-clones")
    with precision(128):
        chord = claim.upper(0.9, {"fineness": 1e-3, "from": 0.07})
        assert chord < 0.5 * claim.at(0.07, fineness=1e-3)
        assert chord > 1e-12
        assert claim.upper(1.0, {"fineness": 1e-3, "from": 1.0}) == 1e-12


@pytest.mark.parametrize(
    "witness", [{}, {"fineness": 0.1}, {"fineness": 2.0, "from": 0.1}, {"fineness": 0.1, "from": 1.0}]
)
def test_witnesses_that_are_none_are_refused(witness: dict[str, Any]) -> None:
    with pytest.raises(shoal.ParameterError):
        CloneClaim(100, 1.0, 0.0, "clones").upper(0.5, witness)


@pytest.mark.slow
def test_no_random_witness_proves_what_is_false() -> None:
    random = np.random.default_rng(5)
    for _ in range(60):
        claim: RoundClaim = CloneClaim(int(10 ** random.uniform(0, 6)), float(random.uniform(0.1, 5)), 0.0, "clones")
        epsilon = float(random.uniform(0, 1) ** 3 * claim.ceiling)
        pair = shoal.amplify(local_epsilon=claim.ceiling, reports=claim.reports, bound="clones").profile
        lower = pair.delta_bracket(epsilon)[0]  # type: ignore[attr-defined]
        witness = {"fineness": float(10 ** random.uniform(-4, 0)), "from": epsilon}
        with precision(96):
            assert claim.upper(epsilon, witness).upper() >= lower


def test_two_ratios_that_are_one_are_the_strong_clones() -> None:
    with precision(128):
        strong = CloneClaim(50, 0.5, 0.0, "strong-clones").at(0.1, fineness=0.0)
        assert RatioClaim(50, 0.5, 0.5).at(0.1, fineness=0.0).overlaps(strong)
        assert RatioClaim(50, 0.5, 1.0).at(0.1, fineness=0.0) > strong


def test_a_claim_without_a_name_of_its_own_is_not_certified() -> None:
    class Rarer(CloneClaim):
        """The same name, and other numbers."""

    claim = Rarer(1000, 1.0, 0.0, "clones")
    with pytest.raises(shoal.errors.NoPairError, match="own class has a name"):
        shoal.Certificate.prove(claim, epsilon=0.5, delta=1e-2)
    certificate = shoal.Certificate.prove(CloneClaim(1000, 1.0, 0.0, "clones"), epsilon=0.5, delta=1e-2)
    with pytest.raises(shoal.errors.NoPairError):
        replace(certificate, claim=claim)
