"""Certificates: proved again from their JSON, and refused if anything in it was changed."""

import json
import math
import subprocess
import sys
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import shoal
from shoal.pairs import ClonePair
from shoal.proofs.balls import precision
from shoal.proofs.certificate import MOST_BYTES, Certificate
from shoal.proofs.claim import Claim
from shoal.proofs.clone_claim import CloneClaim
from shoal.proofs.several_messages_claim import WHOLE, CoverClaim
from shoal.proofs.training_claim import ParticipationClaim
from tests.test_properties import examples

_FIELDS = ("claim", "epsilon", "delta", "printed_epsilon", "proven_delta", "theorem", "assumptions", "statement",
           "witness", "bits")  # fmt: skip


@cache
def certificates() -> tuple[Certificate, ...]:
    response = shoal.RandomizedResponse(categories=5, local_epsilon=1)
    return (
        shoal.amplify(local_epsilon=2, reports=1000).certify(delta=1e-6),
        shoal.amplify(local_epsilon=1, reports=500, bound="clones").certify(delta=1e-4),
        shoal.amplify(local_epsilon=1, local_delta=1e-12, reports=10_000).certify(delta=1e-6),
        shoal.amplify(response, reports=50, bound="decomposition").certify(delta=1e-3),
        shoal.amplify(response, reports=300).certify(delta=1e-6),
        shoal.amplify(shoal.MatrixRandomizer([[3, 1, 1], [1, 3, 1], [1, 1, 3]]), reports=40).certify(delta=1e-4),
    )


some = st.integers(0, 5).map(lambda place: certificates()[place])


def refused(text: str) -> bool:
    """Tell whether a text is refused on reading, or what was read by its proof."""
    try:
        return not Certificate.from_json(text).verify()
    except shoal.errors.FileError:
        return True


def leaves(content: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return where the plain values of a JSON text stand."""
    if not isinstance(content, (dict, list)):
        return [path]
    items = content.items() if isinstance(content, dict) else enumerate(content)
    return [leaf for name, value in items for leaf in leaves(value, (*path, name))]


def changed(content: Any, path: tuple[Any, ...], value: Any) -> str:
    """Return the text with another value at one place."""
    again = json.loads(json.dumps(content))
    inner = again
    for name in path[:-1]:
        inner = inner[name]
    inner[path[-1]] = value
    return json.dumps(again)


values = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=True), st.text(max_size=8), st.just([]), st.just({}),
    st.floats(min_value=0, max_value=1).map(float.hex), st.sampled_from(["clones", "strong-clones", "decomposition"]),
)  # fmt: skip


@pytest.mark.slow
@examples(300)
@given(some, st.data())
def test_a_change_of_any_value_is_refused(certificate: Certificate, data: st.DataObject) -> None:
    content = json.loads(certificate.to_json())
    path = data.draw(st.sampled_from(leaves(content)))
    before: Any = content
    for name in path:
        before = before[name]
    if isinstance(before, float) and data.draw(st.booleans()):
        value: Any = before * data.draw(st.floats(0.0, 2.0)) if before else data.draw(st.floats(1e-30, 0.5))
    elif isinstance(before, int) and data.draw(st.booleans()):
        value = before + data.draw(st.integers(-100, 100))
    else:
        value = data.draw(values)
    assume(json.dumps(value) != json.dumps(before))
    assert refused(changed(content, path, value))


@pytest.mark.slow
@examples(60)
@given(some, st.data())
def test_a_field_more_or_less_or_twice_is_refused(certificate: Certificate, data: st.DataObject) -> None:
    content = json.loads(certificate.to_json())
    name = data.draw(st.sampled_from(sorted(content)))
    inner = data.draw(st.sampled_from(sorted(content["exact"])))
    assert refused(json.dumps({key: value for key, value in content.items() if key != name}))
    assert refused(json.dumps(content | {data.draw(st.text(max_size=5)): 1}))
    assert refused(json.dumps(content | {"exact": {k: v for k, v in content["exact"].items() if k != inner}}))
    assert refused(json.dumps(content | {"exact": content["exact"] | {"bits": "0x1p+8"}}))
    twice = json.dumps(content)[:-1] + f", {json.dumps(name)}: {json.dumps(data.draw(values))}}}"
    assert refused(twice)
    first = f"{{{json.dumps(name)}: {json.dumps(data.draw(values))}, " + json.dumps(content)[1:]
    assert refused(first), "the one that counts in most readers is not the one that people see"


@pytest.mark.slow
def test_numbers_that_people_read_are_compared_digit_for_digit() -> None:
    for certificate in certificates():
        text = certificate.to_json()
        lines = [line for line in text.splitlines() if line.rstrip(",")[-1:].isdigit()]
        assert len(lines) > 6
        for line in lines:
            number = line.split(": ")[-1].strip().rstrip(",")
            for other in ("0.01", "1e-12", "2.0", number + "0", number + "00000001", "9" + number, "-" + number):
                if other != number:
                    assert refused(text.replace(line, line.replace(number, other)))


@pytest.mark.slow
def test_what_was_edited_is_named() -> None:
    certificate = certificates()[0]
    text = certificate.to_json().replace(f'"epsilon": {certificate.epsilon!r}', '"epsilon": 0.01')
    with pytest.raises(shoal.errors.DamagedError, match=r"changed after it was written: epsilon;"):
        Certificate.from_json(text)


@examples(20)
@given(some, st.sampled_from([None, 0, 1, 7]), st.booleans())
def test_white_space_and_order_change_nothing(certificate: Certificate, indent: int | None, ordered: bool) -> None:
    text = json.dumps(json.loads(certificate.to_json()), indent=indent, sort_keys=ordered)
    assert Certificate.from_json(f"\n {text} ") == certificate


@pytest.mark.slow
@examples(60)
@given(some, st.data())
def test_a_theorem_that_was_restated_is_proved_anew(certificate: Certificate, data: st.DataObject) -> None:
    """With a digest of its own a change is another theorem: a stronger one fails, and a weaker one is as true."""
    name = data.draw(st.sampled_from(["epsilon", "delta", "proven_delta"]))
    factor = data.draw(st.floats(0.0, 1 - 1e-6))
    change: dict[str, Any] = {name: getattr(certificate, name) * factor}
    if name == "epsilon":
        change |= {"printed_epsilon": 0.0, "witness": dict(certificate.witness) | {"from": change["epsilon"]}}
    stronger = replace(certificate, **change)
    assert not Certificate.from_json(stronger.to_json()).verify()
    weaker = replace(certificate, delta=min(0.5, certificate.delta * 1.5), bits=certificate.bits + 64)
    assert Certificate.from_json(weaker.to_json()).verify()


def test_a_raised_proven_delta_may_not_pass_delta() -> None:
    for certificate in certificates():
        assert not replace(certificate, proven_delta=math.nextafter(certificate.delta, 1)).verify()


def test_proven_delta_is_above_the_ball_and_hardly_more() -> None:
    for certificate in certificates():
        with precision(256):
            ball = certificate.claim.upper(certificate.epsilon, certificate.witness)
        assert ball <= certificate.proven_delta <= certificate.delta
        assert certificate.proven_delta <= float(ball) * (1 + 1e-6)


def test_the_sentence_names_everything_that_the_theorem_is_about() -> None:
    for certificate in certificates():
        for name in ("epsilon", "delta"):
            assert f"{name}={getattr(certificate, name)!r}" in str(certificate)
        assert f"{certificate.claim.reports:,} shuffled reports" in str(certificate)  # type: ignore[attr-defined]
        assert "local_epsilon=" in str(certificate)
        assert "\n" not in str(certificate)
        if certificate.printed_epsilon != certificate.epsilon:
            assert f"printed was epsilon={certificate.printed_epsilon!r}" in str(certificate)


@pytest.mark.parametrize("text", ["", "{}", "[1]", "1", '{"format": "another"}', '{"format": "shoal-certificate-5"}'])
def test_foreign_certificates_are_refused(text: str) -> None:
    with pytest.raises(shoal.errors.FormatError, match="not a certificate"):
        Certificate.from_json(text)
    with pytest.raises(shoal.errors.FormatError, match="not a certificate"):
        Certificate.from_json("[" * 100_000)


@pytest.mark.parametrize(
    "change",
    [
        {"claim": "clones"}, {"claim": None}, {"bits": 52}, {"bits": 160.0}, {"bits": True}, {"bits": 10**6},
        {"epsilon": math.nan}, {"epsilon": math.inf}, {"epsilon": 1}, {"epsilon": -0.5}, {"delta": 1.0},
        {"delta": -1e-9}, {"proven_delta": "1e-9"}, {"printed_epsilon": 5.0}, {"witness": 7},
    ],
)  # fmt: skip
def test_fields_that_state_no_theorem_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises((shoal.ParameterError, shoal.errors.NoPairError)):
        replace(certificates()[3], **change)


@pytest.mark.parametrize(
    ("claim", "witness"),
    [
        (CoverClaim(10**6, 5e-324, 100, 1, 0, WHOLE - 1), {"fineness": 0.0, "from": 0.0}),
        (
            ParticipationClaim("allocation", 2, 1, 2, 0.02, 1, "replace", 0.0),
            {"cells": 4, "reach": 1e5, "replace": {"fineness": 0.0}},
        ),
    ],
)
def test_probabilities_that_are_no_doubles_prove_nothing_false(claim: Claim, witness: dict[str, Any]) -> None:
    """δ(0) is about 1 in both: hardly any covers, hardly any noise."""
    forged = Certificate(
        claim=claim, epsilon=0.0, delta=1e-30, printed_epsilon=0.0, proven_delta=1e-30, witness=witness
    )
    assert "not proved" in forged.objection()


def test_two_categories_with_the_same_outputs_are_no_design() -> None:
    with pytest.raises(shoal.ParameterError, match="common"):
        CoverClaim(0, 1.0, 100, 1, 1, WHOLE)


def test_an_infinite_epsilon_is_not_proved() -> None:
    with pytest.raises(shoal.errors.UnreachableError, match="no finite epsilon"):
        shoal.amplify(shoal.Gaussian(sigma=1), reports=100).certify(delta=0.0)


def test_a_long_text_is_not_even_read() -> None:
    with pytest.raises(shoal.errors.FormatError, match=r"200,001 characters"):
        Certificate.from_json(" " * (MOST_BYTES + 1))


def test_the_room_needs_no_evaluator() -> None:
    """Reading and proving imports python-flint, and neither numpy nor anything that computed the number."""
    program = (
        "import sys, shoal.proofs.certificate as c; text = sys.stdin.read(); assert c.Certificate.from_json(text)"
        ".verify(); assert 'numpy' not in sys.modules; print(*sorted(n for n in sys.modules if n.startswith('shoal.')))"
    )
    text = certificates()[4].to_json()
    done = subprocess.run([sys.executable, "-c", program], input=text, capture_output=True, text=True, check=True)
    rooms = {name.split(".")[1] for name in done.stdout.split()}
    assert rooms <= {
        "proofs",
        "assumptions",
        "errors",
        "strict_json",
        "digits",
        "lazy_names",
        "shown",  # how it looks in a notebook
        "documentation",
    }


def test_certificates_at_local_epsilon_zero_come_back() -> None:
    certificate = shoal.amplify(local_epsilon=0, reports=10).certify(delta=1e-6)
    assert Certificate.from_json(certificate.to_json()).verify()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40))
def test_verify_answers_whatever_the_fields(seed: int) -> None:
    random = np.random.default_rng(seed)
    family = ("clones", "strong-clones")[seed % 2]
    claim = CloneClaim(int(10 ** random.uniform(0, 9)), float(50 * random.uniform(0, 1) ** 4), 0.0, family)
    epsilon, delta = float(claim.local_epsilon * random.uniform(0, 1) ** 4), float(10 ** random.uniform(-12, -0.1))
    certificate = Certificate(
        claim=claim, epsilon=epsilon, delta=delta, printed_epsilon=epsilon, proven_delta=delta,
        witness={"fineness": 0.001, "from": epsilon}, bits=int(random.integers(64, 256)),
    )  # fmt: skip
    pair = ClonePair(claim.reports, claim.local_epsilon, family)  # type: ignore[arg-type]
    if certificate.verify():
        assert pair.delta_bracket(epsilon)[0] <= delta
    else:
        assert pair.delta_bracket(epsilon)[1] * (1 + 1e-3) >= delta


def test_all_fields_are_in_the_json() -> None:
    content = json.loads(certificates()[0].to_json())
    assert set(content) == {"format", *_FIELDS, "exact", "sha256"}


def test_what_was_printed_is_at_most_a_thousandth_below() -> None:
    certificate = shoal.amplify(local_epsilon=1, reports=100).certify(delta=1e-3)
    for printed, objection in (
        (certificate.epsilon / 1.0009, ""),
        (certificate.epsilon / 1.0011, "another ε than the"),
    ):
        again = replace(certificate, printed_epsilon=printed)
        assert (objection in again.objection()) and again.verify() == (not objection)
