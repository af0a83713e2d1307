"""The fuzzer of the benchmark, in small: no edit is accepted, and a restated theorem is proved or not."""

import hashlib
import json
import random
from typing import Any

import pytest

import shoal
from benchmarks.forgeries import certificates, edited, outcome, restated
from shoal.proofs.blanket_claim import MatrixClaim
from shoal.proofs.certificate import _hexadecimal
from shoal.proofs.claim import _CLAIMS, Claim, RoundClaim
from shoal.proofs.clone_claim import CloneClaim
from shoal.proofs.participation_pairs import AllocationPair, PoissonStepPair
from shoal.proofs.rounds_claim import Composition, RoundsClaim
from shoal.proofs.training_claim import GaussianClonesPair, ParticipationClaim
from shoal.review.review_document import Review
from shoal.review.statement import Section, Statement


@pytest.fixture(scope="module")
def texts() -> tuple[str, ...]:
    return certificates()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_edits_are_refused(texts: tuple[str, ...], seed: int) -> None:
    dice = random.Random(seed)
    for _ in range(500):
        assert outcome(edited(dice.choice(texts), dice), frozenset(texts)) in ("refused", "unchanged")


@pytest.mark.slow
def test_foreign_and_empty_texts_are_refused(texts: tuple[str, ...]) -> None:
    for text in (*texts[:2], ""):
        for other in (text[::-1], text * 2, f"[{text}]", json.dumps({"certificate": text}), "\ufeff" + text, text[1:]):
            assert outcome(other, frozenset(texts)) == "refused"
    assert all(outcome(text, frozenset()) == "proved" for text in texts)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_restated_theorems_are_proved_only_if_true(texts: tuple[str, ...], seed: int) -> None:
    dice = random.Random(seed)
    for _ in range(25):
        text = restated(texts[0], dice)  # of clones, of which floating point knows a lower end
        if text is None or outcome(text, frozenset(texts)) != "proved":
            continue
        certificate = shoal.Certificate.from_json(text)
        claim = certificate.claim
        assert isinstance(claim, CloneClaim)
        if not claim.local_delta and certificate.epsilon < claim.local_epsilon:
            curve = shoal.amplify(local_epsilon=claim.local_epsilon, reports=claim.reports, bound=claim.family)
            assert curve.profile.delta_bracket(certificate.epsilon)[0] <= certificate.delta  # type: ignore[attr-defined]


_STEP = {"name": "poisson-step", "numerator": 1, "denominator": 1000, "noise": 1e-6, "direction": "add"}
_EPOCH = {"name": "allocation", "reports": 235, "noise": 1.0, "direction": "add", "cells": 1600, "reach": 8.0}
_CLONES = {
    "name": "gaussian-clones", "reports": 60_000, "noise": 0.5, "numerator": 1, "denominator": 1, "above": 1.0,
    "below": 1.0, "log_ratio": 0.0, "cells": 1500, "reach": 11.0,
}  # fmt: skip
_TABLE = {"name": "matrix", "reports": 50, "local_epsilon": 3.0, "weights": [[1, 1], [1, 1]]}
_FORGED = {
    "poisson-add": (_STEP, 0.0010006, 0.0),
    "alloc-add": (_EPOCH, 0.3155, 1e-6),
    "gaussian-clones": (_CLONES, 0.9, 1e-6),
    "gaussian-clones, noise 1": (_CLONES | {"noise": 1.0}, 0.05, 1e-6),
    "gaussian-clones, noise 1e13": (_CLONES | {"noise": 1e13}, 1e-9, 1e-12),
    "matrix with another ε₀": (_TABLE, 0.0, 0.0),
}
"""Claims that earlier versions proved, and that say less than a reader takes them for, or something false."""


def forged(claim: dict[str, Any], epsilon: float, delta: float, *, times: int = 0) -> str:
    """Return the text of a certificate of this claim, or of rounds of it, made from an honest one."""
    witness: dict[str, Any] = {"fineness": 0.01, "from": epsilon}
    if times:
        claim = {"name": "rounds", "parts": [{"times": times, "claim": claim}]}
        witness = {"step": 2.0**-10, "grid": [[1, 50, []]], "fineness": 0.008, "tilt": 1.0, "nodes": 101}
    content = json.loads(shoal.amplify(local_epsilon=1, reports=100).certify(delta=1e-3).to_json())
    content |= {"claim": claim, "epsilon": epsilon, "delta": delta, "printed_epsilon": epsilon, "proven_delta": delta}
    content["witness"] = witness
    content["exact"] = _hexadecimal({name: content[name] for name in content["exact"]})
    del content["sha256"]
    plain = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return json.dumps(content | {"sha256": hashlib.sha256(plain.encode()).hexdigest()})


@pytest.mark.parametrize("name", _FORGED)
@pytest.mark.parametrize("times", [0, 1000])
def test_parts_of_a_proof_are_not_certificates(name: str, times: int) -> None:
    """One direction of a pair, and the pair of Theorem G without its charges, have no name that a file could use."""
    text = forged(*_FORGED[name], times=times)
    with pytest.raises(shoal.errors.FormatError, match=r"no claim is called|larger than the least"):
        shoal.Certificate.from_json(text)
    section = Section("What is proved", (Statement("proved", "ε = 0.0010006 holds."),))
    page = Review("A page", shoal.__version__, (section,), (text,)).to_html()
    assert "certificate 1 of the review: this is not a certificate" in Review.from_text(page).objection()


@pytest.mark.parametrize(
    "pair",
    [
        PoissonStepPair(1, 1000, 1e-6, "add"),
        AllocationPair(235, 1.0, "add", 1600, 8.0),
        GaussianClonesPair(60_000, 0.5, 1, 1, 1.0, 1.0, 0.0, 1500, 11.0),
        Composition(((PoissonStepPair(1, 1000, 1e-6, "add"), 1000),)),
    ],
    ids=lambda pair: type(pair).__name__,
)
def test_no_certificate_is_of_a_pair(pair: Any) -> None:
    with pytest.raises(shoal.errors.NoPairError, match="whose own class has a name"):
        shoal.Certificate(
            claim=pair, epsilon=0.9, delta=1e-6, printed_epsilon=0.9, proven_delta=1e-6,
            witness={"fineness": 0.01, "from": 0.9},
        )  # fmt: skip
    with pytest.raises(shoal.ParameterError, match="claims of one round"):
        RoundsClaim(((pair, 10),))


def test_every_claim_that_a_file_can_name_is_about_both_directions() -> None:
    """`RoundClaim.reverse` is final; one direction is a pair without a name, inside of a claim."""
    for claim in _CLAIMS.values():
        assert not issubclass(claim, RoundClaim) or claim.reverse is RoundClaim.reverse
    for kind in (PoissonStepPair, AllocationPair, GaussianClonesPair, Composition):
        assert not issubclass(kind, Claim)


def test_certificates_of_earlier_formats_are_refused() -> None:
    text = shoal.amplify(local_epsilon=1, reports=100).certify(delta=1e-3).to_json()
    with pytest.raises(
        shoal.errors.FormatError, match="shoal-certificate-4, of an earlier shoal, which is not trusted"
    ):
        shoal.Certificate.from_json(text.replace("shoal-certificate-5", "shoal-certificate-4"))


def test_sentences_tell_tables_and_rounds_apart() -> None:
    """A sentence names every number, or has a digest of what it has no room for."""
    ln3 = shoal.MatrixRandomizer([[3, 1], [1, 3]]).local_epsilon
    tables = [MatrixClaim(50, ln3, weights).subject for weights in (((3, 1), (1, 3)), ((1, 3), (3, 1)))]
    assert tables[0] != tables[1]
    assert repr(shoal.MatrixRandomizer([[3, 1], [1, 3]])).split()[-1][:-1] in tables[0]
    kinds = [(CloneClaim(100 + index, 1.0, 0.0, "clones"), 1) for index in range(5)]
    others = [*kinds[:4], (CloneClaim(999, 1.0, 0.0, "clones"), 1)]
    assert RoundsClaim(tuple(kinds)).subject != RoundsClaim(tuple(others)).subject
    runs = [ParticipationClaim("poisson", 235, 8, 1875, 2.0, 1, "replace", charged) for charged in (0.0, 1e-9)]
    assert runs[0].subject != runs[1].subject
