"""The fuzzer of the benchmark, in small: no edit is accepted, and a restated theorem is proved or not."""

import json
import random

import pytest

import shoal
from benchmarks.forgeries import certificates, edited, outcome, restated
from shoal.proofs.clone_claim import CloneClaim


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
