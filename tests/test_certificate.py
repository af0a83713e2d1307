"""Certificates: proved again from their JSON, and refused if anything in it was changed."""

import json
import math
from dataclasses import dataclass, replace
from functools import cache
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import shoal
from shoal.certificate import Certificate
from shoal.evaluators.certified import certified_delta
from shoal.evaluators.hockey_stick import delta_bracket
from shoal.pairs.pair import ClonePair, DecompositionPair, RatioPair
from tests.test_properties import examples

_FIELDS = (
    "bound", "reports", "local_epsilon", "local_delta", "parameters", "epsilon", "delta", "proven_delta", "bits",
)  # fmt: skip


@cache
def certificates() -> tuple[Certificate, ...]:
    response = shoal.RandomizedResponse(categories=5, local_epsilon=1)
    return (
        shoal.amplify(local_epsilon=2, reports=1000).certify(delta=1e-6),
        shoal.amplify(local_epsilon=1, reports=500, bound="clones").certify(delta=1e-4),
        shoal.amplify(local_epsilon=1, local_delta=1e-12, reports=10_000).certify(delta=1e-6),
        shoal.amplify(response, reports=50, bound="decomposition").certify(delta=1e-3),
    )


some = st.integers(0, 3).map(lambda place: certificates()[place])


def refused(text: str) -> bool:
    """Tell whether a text is refused on reading, or what was read by its proof."""
    try:
        return not Certificate.from_json(text).verify()
    except shoal.FileError:
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


@pytest.mark.parametrize("name", [name for name in _FIELDS if name not in ("bound", "parameters")])
def test_numbers_that_people_read_are_compared_digit_for_digit(name: str) -> None:
    for certificate in certificates():
        text = certificate.to_json()
        line = next(part for part in text.splitlines() if part.startswith(f'  "{name}": '))
        number = line.split(": ")[1].rstrip(",")
        for other in ("0.01", "1e-12", "1e-20", "2.0", number + "0", number + "00000001", "9" + number, "-" + number):
            if other != number:
                assert refused(text.replace(line, line.replace(number, other)))


def test_what_was_edited_is_named() -> None:
    certificate = certificates()[0]
    text = certificate.to_json().replace(f'"epsilon": {certificate.epsilon!r}', '"epsilon": 0.01')
    with pytest.raises(shoal.DamagedError, match=r"changed after it was written: epsilon;"):
        Certificate.from_json(text)


@examples(20)
@given(some, st.sampled_from([None, 0, 1, 7]), st.booleans())
def test_white_space_and_order_change_nothing(certificate: Certificate, indent: int | None, ordered: bool) -> None:
    text = json.dumps(json.loads(certificate.to_json()), indent=indent, sort_keys=ordered)
    assert Certificate.from_json(f"\n {text} ") == certificate


@examples(60)
@given(some, st.data())
def test_a_theorem_that_was_restated_is_proved_anew(certificate: Certificate, data: st.DataObject) -> None:
    """With a digest of its own a change is another theorem: a stronger one fails, and a weaker one is as true."""
    name = data.draw(st.sampled_from(["epsilon", "delta", "proven_delta"]))
    factor = data.draw(st.floats(0.0, 1 - 1e-6))
    stronger = replace(certificate, **{name: getattr(certificate, name) * factor})
    assert not Certificate.from_json(stronger.to_json()).verify()
    weaker = replace(certificate, delta=min(0.5, certificate.delta * 1.5), bits=certificate.bits + 64)
    assert Certificate.from_json(weaker.to_json()).verify()


def test_a_raised_proven_delta_may_not_pass_delta() -> None:
    for certificate in certificates():
        assert not replace(certificate, proven_delta=math.nextafter(certificate.delta, 1)).verify()


def test_proven_delta_is_above_the_ball_and_hardly_more() -> None:
    for certificate in certificates()[:2]:
        ball = certified_delta(certificate._pair(), certificate.epsilon, 512)
        assert ball <= certificate.proven_delta <= certificate.delta
        assert certificate.proven_delta <= float(ball) * (1 + 1e-6)


def test_the_sentence_names_everything_that_the_theorem_is_about() -> None:
    for certificate in certificates():
        for name in ("local_epsilon", "local_delta", "epsilon", "delta"):
            assert f"{name}={getattr(certificate, name)!r}" in str(certificate)
        for value in certificate.parameters:
            assert repr(value) in str(certificate)
    assert "blanket_probability=" in str(certificates()[3])


@pytest.mark.parametrize("text", ["", "{}", "[1]", "1", '{"format": "another"}', '{"format": "shoal-certificate-2"}'])
def test_foreign_certificates_are_refused(text: str) -> None:
    with pytest.raises(shoal.FormatError, match="not a certificate"):
        Certificate.from_json(text)
    with pytest.raises(shoal.FormatError, match="not a certificate"):
        Certificate.from_json("[" * 100_000)


@pytest.mark.parametrize(
    "parameters", [(), (0.4, 0.5), (0.1, 1.5), (0.1,), (-0.1, 0.5), (1 / 3, 0.964), (0.3, 0.9), (math.nan, 0.5)]
)
def test_certificates_of_impossible_decompositions_are_refused(parameters: tuple[float, ...]) -> None:
    certificate = replace(certificates()[3], local_epsilon=4.0, epsilon=3.9, parameters=(0.01, 0.9))
    with pytest.raises(shoal.ParameterError):
        replace(certificate, parameters=parameters)
    content = json.loads(certificate.to_json())
    content["parameters"], content["exact"]["parameters"] = list(parameters), [value.hex() for value in parameters]
    with pytest.raises(shoal.FormatError, match="not a certificate"):
        Certificate.from_json(json.dumps(content))


@pytest.mark.parametrize(
    "change",
    [
        {"local_delta": 1e-9},  # nobody has proved a charge for δ₀ there
        {"bound": "blanket"}, {"bits": 52}, {"bits": 192.0}, {"bits": True}, {"reports": 0}, {"reports": 10**16},
        {"reports": True}, {"epsilon": math.nan}, {"epsilon": math.inf}, {"epsilon": 1}, {"delta": 1.0},
        {"delta": -1e-9}, {"local_epsilon": -1.0}, {"proven_delta": "1e-9"},
    ],
)  # fmt: skip
def test_fields_that_state_no_theorem_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(shoal.ParameterError):
        replace(certificates()[3], **change)


def test_certificates_at_local_epsilon_zero_come_back() -> None:
    certificate = shoal.amplify(local_epsilon=0, reports=10).certify(delta=1e-6)
    assert Certificate.from_json(certificate.to_json()).verify()


@examples(150)
@given(
    st.builds(ClonePair, st.integers(1, 10**9), st.floats(1e-320, 50), st.sampled_from(["clones", "strong-clones"])),
    st.floats(0, 50), st.floats(0, 0.9), st.integers(53, 256),
)  # fmt: skip
def test_verify_answers_whatever_the_fields(pair: ClonePair, epsilon: float, delta: float, bits: int) -> None:
    certificate = Certificate(
        bound=pair.family, reports=pair.reports, local_epsilon=pair.local_epsilon, local_delta=0.0, parameters=(),
        epsilon=epsilon, delta=delta, proven_delta=delta, bits=bits,
    )  # fmt: skip
    if certificate.verify() and epsilon < pair.local_epsilon:
        assert delta_bracket(pair, epsilon)[0] <= delta


# Of the pair that was asked for, or refused


@dataclass(frozen=True)
class Rarer(ClonePair):
    """A pair that calls itself strong-clones, and has other probabilities."""

    @property
    def clone_probability(self) -> float:
        return super().clone_probability / 1000


@dataclass(frozen=True)
class Renamed(DecompositionPair):
    """A pair with other probabilities than a decomposition."""


@pytest.mark.parametrize(
    "pair",
    [
        RatioPair(1000, 1.0, "strong-clones", 3.0),
        Rarer(1000, 1.0, "strong-clones"),
        Renamed(1000, 0.05, 0.4),
        SimpleNamespace(reports=1000, local_epsilon=1.0, family="strong-clones", clone_probability=0.5),
    ],
)
def test_other_pairs_are_not_proved_under_the_name_of_a_known_one(pair: Any) -> None:
    with pytest.raises(shoal.NoPairError, match="only of a ClonePair or a DecompositionPair"):
        certified_delta(pair, 0.5, 192)
    with pytest.raises(shoal.NoPairError, match="only of a ClonePair or a DecompositionPair"):
        Certificate.prove(pair, local_epsilon=1.0, local_delta=0.0, epsilon=0.5, delta=1e-2)


def test_a_pair_is_proved_with_its_own_local_epsilon_and_family() -> None:
    pair = ClonePair(1000, 2.0, "strong-clones")
    with pytest.raises(shoal.ParameterError, match="local_epsilon must be the pair's"):
        Certificate.prove(pair, local_epsilon=1.0, local_delta=0.0, epsilon=0.5, delta=1e-2)
    with pytest.raises(shoal.ParameterError, match="family must be one of"):
        ClonePair(1000, 2.0, "weak-clones")  # type: ignore[arg-type]
    for blanket, own in ((0.4, 0.5), (0.0, 0.5), (0.1, 0.0), (0.1, 1.5), (math.nan, 0.5)):
        with pytest.raises(shoal.ParameterError, match="blanket_probability"):
            DecompositionPair(1000, blanket, own)


def test_all_fields_are_in_the_json() -> None:
    content = json.loads(certificates()[0].to_json())
    assert set(content) == {"format", *_FIELDS, "exact", "sha256"}
