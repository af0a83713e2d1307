"""Certificates: proved again from their JSON, and refused if anything in it was changed."""

import json
import math
from dataclasses import dataclass, replace
from functools import cache
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import shoal
from shoal.certificate import Certificate
from shoal.pairs import ClonePair, DecompositionPair, LikelihoodPair, RatioPair
from shoal.pairs.support import response
from tests.test_properties import examples

_FIELDS = ("pair", "local_delta", "epsilon", "delta", "proven_delta", "bits")


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


@pytest.mark.parametrize("name", ["reports", "local_epsilon", "blanket_probability", *_FIELDS[1:]])
def test_numbers_that_people_read_are_compared_digit_for_digit(name: str) -> None:
    for certificate in certificates():
        text = certificate.to_json()
        line = next((part for part in text.splitlines() if part.strip().startswith(f'"{name}": ')), None)
        if line is None:
            assert name == "blanket_probability"
            continue
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


@pytest.mark.slow
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
        ball = certificate.pair.proven(certificate.epsilon, local_delta=certificate.local_delta, bits=512)
        assert ball <= certificate.proven_delta <= certificate.delta
        assert certificate.proven_delta <= float(ball) * (1 + 1e-6)


def test_the_sentence_names_everything_that_the_theorem_is_about() -> None:
    for certificate in certificates():
        for name in ("local_epsilon", "local_delta", "epsilon", "delta"):
            assert f"{name}={getattr(certificate, name)!r}" in str(certificate)
        assert f"{certificate.reports:,} reports" in str(certificate)
    assert [str(one).split(": ")[1].split(",")[0] for one in certificates()] == [
        "strong-clones", "clones", "strong-clones", "decomposition-pair"
    ]  # fmt: skip
    assert "blanket_probability=" in str(certificates()[3])


@pytest.mark.parametrize("text", ["", "{}", "[1]", "1", '{"format": "another"}', '{"format": "shoal-certificate-3"}'])
def test_foreign_certificates_are_refused(text: str) -> None:
    with pytest.raises(shoal.FormatError, match="not a certificate"):
        Certificate.from_json(text)
    with pytest.raises(shoal.FormatError, match="not a certificate"):
        Certificate.from_json("[" * 100_000)


@pytest.mark.parametrize(
    "parameters", [(), (0.4, 0.5), (0.1, 1.5), (0.1,), (-0.1, 0.5), (1 / 3, 0.964), (0.3, 0.9), (math.nan, 0.5)]
)
def test_certificates_of_impossible_decompositions_are_refused(parameters: tuple[float, ...]) -> None:
    certificate = replace(certificates()[3], pair=DecompositionPair(50, 0.01, 0.9, 4.0), epsilon=3.9)
    names = ("blanket_probability", "own_probability")
    content = json.loads(certificate.to_json())
    for name in names:
        del content["pair"][name], content["exact"]["pair"][name]
    content["pair"] |= dict(zip(names, parameters, strict=False))
    content["exact"]["pair"] |= {name: value.hex() for name, value in zip(names, parameters, strict=False)}
    if len(parameters) == 2:
        with pytest.raises(shoal.ParameterError):
            DecompositionPair(50, *parameters, 4.0)
    with pytest.raises(shoal.FormatError, match="not a certificate"):
        Certificate.from_json(json.dumps(content))


@pytest.mark.parametrize(
    "change",
    [
        {"local_delta": 1e-9},  # nobody has proved a charge for δ₀ there
        {"pair": "blanket"}, {"pair": None}, {"bits": 52}, {"bits": 192.0}, {"bits": True}, {"epsilon": math.nan},
        {"epsilon": math.inf}, {"epsilon": 1}, {"delta": 1.0}, {"delta": -1e-9}, {"proven_delta": "1e-9"},
        *({"pair": ClonePair(reports, 1.0, "clones")} for reports in (0, 10**16, True, cast("int", 5.0))),
        *({"pair": ClonePair(5, local, "clones")} for local in (-1.0, 1, math.nan, math.inf, cast("float", "1.0"))),
    ],
)  # fmt: skip
def test_fields_that_state_no_theorem_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises((shoal.ParameterError, shoal.NoPairError)):
        replace(certificates()[3], **change)


def test_certificates_at_local_epsilon_zero_come_back() -> None:
    certificate = shoal.amplify(local_epsilon=0, reports=10).certify(delta=1e-6)
    assert Certificate.from_json(certificate.to_json()).verify()


@pytest.mark.slow
@examples(150)
@given(
    st.builds(ClonePair, st.integers(1, 10**9), st.floats(1e-320, 50), st.sampled_from(["clones", "strong-clones"])),
    st.floats(0, 50), st.floats(0, 0.9), st.integers(53, 256),
)  # fmt: skip
def test_verify_answers_whatever_the_fields(pair: ClonePair, epsilon: float, delta: float, bits: int) -> None:
    certificate = Certificate(
        pair=pair, local_delta=0.0, epsilon=epsilon, delta=delta, proven_delta=delta, bits=bits,
    )  # fmt: skip
    if certificate.verify() and epsilon < pair.local_epsilon:
        assert pair.delta_bracket(epsilon)[0] <= delta


# Of the pair that was asked for, or refused


@dataclass(frozen=True)
class Rarer(ClonePair):
    """A pair that calls itself strong-clones, and has other probabilities."""

    @property
    def clone_probability(self) -> float:
        return super().clone_probability / 1000


@dataclass(frozen=True)
class Named(Rarer, name="named-clones"):
    """The same with a name, and with the proof of the pair that it extends."""


@dataclass(frozen=True)
class Lying(ClonePair, name="lying-clones"):
    """A pair that has a proof, and writes the name of another one."""

    def exact(self, epsilon: float) -> Any:
        return super().exact(epsilon)

    def to_dict(self) -> dict[str, Any]:
        return {"name": "clone-pair", **self.parameters()}


@dataclass(frozen=True)
class Renamed(DecompositionPair):
    """A pair with other probabilities than a decomposition."""


@pytest.mark.parametrize(
    "pair",
    [
        Rarer(1000, 1.0, "strong-clones"),
        Named(1000, 1.0, "strong-clones"),
        Renamed(1000, 0.05, 0.4, 1.0),
        Lying(1000, 1.0, "strong-clones"),
        LikelihoodPair(1000, response(3, 1.0).blanket[0]),
        SimpleNamespace(reports=1000, local_epsilon=1.0, family="strong-clones", clone_probability=0.5),
    ],
)
def test_other_pairs_are_not_proved_under_the_name_of_a_known_one(pair: Any) -> None:
    with pytest.raises(shoal.NoPairError, match=r"its own class needs a name and `exact`|of a Pair|read again"):
        Certificate.prove(pair, local_delta=0.0, epsilon=0.5, delta=1e-2)


def test_a_charge_for_local_delta_is_not_inherited() -> None:
    with pytest.raises(shoal.NoPairError, match="no proof for randomizers with a δ₀"):
        Certificate.prove(RatioPair(1000, 1.0, 3.0), local_delta=1e-12, epsilon=0.5, delta=1e-2)


@pytest.mark.parametrize(("reports", "log_near", "log_ratio"), [(1, 1.0, 3.0), (50, 0.5, 0.5), (3000, 1.0, 3.0)])
def test_two_ratios_are_proved_by_a_sum_of_their_own(reports: int, log_near: float, log_ratio: float) -> None:
    pair = RatioPair(reports, log_near, log_ratio)
    for epsilon in (0.0, 0.1 * log_near, 0.7 * log_near):
        lower, upper = pair.delta_bracket(epsilon)
        ball = pair.proven(epsilon, local_delta=0.0, bits=192)
        assert lower <= ball <= upper * (1 + 1e-6)
    certificate = Certificate.prove(pair, local_delta=0.0, epsilon=pair.epsilon(1e-2) * (1 + 1e-9), delta=1e-2)
    assert certificate is not None
    assert Certificate.from_json(certificate.to_json()).verify()
    # Where both ratios are the same, these are the strong clones.
    strong = ClonePair(reports, log_near, "strong-clones").proven(0.1 * log_near, local_delta=0.0, bits=192)
    assert RatioPair(reports, log_near, log_near).proven(0.1 * log_near, local_delta=0.0, bits=192).overlaps(strong)


def test_a_ratio_below_that_of_the_victim_is_refused() -> None:
    for log_near, log_ratio in ((2.0, 1.0), (-1.0, 1.0), (1.0, math.inf), (math.nan, 1.0)):
        with pytest.raises(shoal.ParameterError, match="at most log_ratio"):
            RatioPair(1000, log_near, log_ratio)


def test_pairs_that_no_randomizer_has_are_refused() -> None:
    with pytest.raises(shoal.ParameterError, match="family must be one of"):
        ClonePair(1000, 2.0, "weak-clones")  # type: ignore[arg-type]
    for blanket, own in ((0.4, 0.5), (0.0, 0.5), (0.1, 0.0), (0.1, 1.5), (math.nan, 0.5)):
        with pytest.raises(shoal.ParameterError, match="blanket_probability"):
            DecompositionPair(1000, blanket, own, 0.1)


def test_all_fields_are_in_the_json() -> None:
    content = json.loads(certificates()[0].to_json())
    assert set(content) == {"format", *_FIELDS, "exact", "sha256"}
