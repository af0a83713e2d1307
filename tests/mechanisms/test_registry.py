"""The registry: names and codes are nobody else's, and the pages that list mechanisms say what it says."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.typing import ArrayLike, NDArray

import shoal
from shoal.errors import ParameterError
from shoal.mechanisms import Coins, Design, Indexed, kinds, mechanism_of, registration, registration_of, schema_of
from shoal.mechanisms.mechanism import Reports
from shoal.pairs.registry import REGISTRY, register, table, wire_code

_DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture
def registry() -> Iterator[None]:
    """Put the registry back as it was."""
    before = dict(REGISTRY)
    yield
    REGISTRY.clear()
    REGISTRY.update(before)


def test_the_page_has_the_table() -> None:
    assert table() in (_DOCS / "mechanisms.md").read_text()
    protocol = (_DOCS / "protocol.md").read_text()
    for row in REGISTRY.values():
        if row.code is not None:
            assert f"| {row.code} | `{row.name}` |" in protocol


_UNNAMED = {"Levels", "QuantileTree"}
"""What randomizes and has no schema: a layer over a protocol, or several, which have one."""


def test_every_file_of_a_mechanism_registers_it() -> None:
    randomizing = {name for name in dir(shoal) if hasattr(getattr(shoal, name), "randomize")}
    assert randomizing > _UNNAMED
    named = {getattr(shoal, name).name for name in randomizing - _UNNAMED}
    assert named <= set(REGISTRY)
    for name, row in REGISTRY.items():
        assert row.kind.name == name == row.name
        assert row.summary and "\n" not in row.summary
        assert row.planned is None or row.code is not None


def test_names_and_codes_are_taken_once(registry: None) -> None:
    @dataclass(frozen=True)
    class Other:
        local_epsilon: float = 1.0

    for name, code, complaint in (
        ("rappor", None, "name 'rappor': it is taken by shoal.mechanisms.unary_encoding.Rappor"),
        ("other", 9, "code 9: it is taken by shoal.mechanisms.unary_encoding.Rappor"),
        ("other", 256, "code must be a byte from 1 to 255, got 256"),
        ("other", 0, "code must be a byte from 1 to 255, got 0"),
    ):
        with pytest.raises(shoal.ParameterError, match=complaint):
            register(name, "another", code=code)(Other)
    assert "other" not in REGISTRY


def test_a_derived_class_is_not_what_it_derives_from() -> None:
    class Louder(shoal.RandomizedResponse):
        """Its reports would be read as those of another class."""

    louder = Louder(categories=3, local_epsilon=1.0)
    assert registration_of(louder) is None
    for question in (schema_of, wire_code, lambda made: made.to_dict()):
        with pytest.raises(shoal.ParameterError, match="Louder"):
            question(louder)


def test_versions_are_told_apart(registry: None) -> None:
    @register("counted", "with a second version", version=2)
    @dataclass(frozen=True)
    class Counted:
        local_epsilon: float
        size: int = 3

    assert schema_of(Counted(1.0)) == {"mechanism": "counted", "version": 2, "local_epsilon": 1.0, "size": 3}
    assert mechanism_of(schema_of(Counted(1.0))) == Counted(1.0)
    assert registration("counted").required == ("local_epsilon",)
    assert "counted" in kinds("size") and "counted" not in kinds("size", within=("size",))
    with pytest.raises(shoal.ParameterError, match=r"version 2 of its schema, got 1.*shoal that wrote it"):
        mechanism_of({"mechanism": "counted", "version": 1, "local_epsilon": 1.0, "size": 3})
    with pytest.raises(shoal.ParameterError, match="counted has the parameters local_epsilon, size, got extent"):
        mechanism_of({"mechanism": "counted", "version": 2, "extent": 3})


@dataclass(frozen=True, kw_only=True)
class Doubled(Indexed):
    """Two outputs for each category; its design says that any two share `shared` of them."""

    shared: int = 0

    @property
    def design(self) -> Design:
        return Design(outputs=2 * self.categories, supporting=2, common=self.shared)

    def own(self, values: Reports, uniform: Reports, coins: Coins) -> Reports:
        return values

    def supports(self, reports: Reports, values: ArrayLike) -> NDArray[np.bool_]:
        return np.asarray(np.asarray(reports) % self.categories == np.asarray(values))


def test_a_design_that_is_not_that_of_the_outputs_is_refused() -> None:
    """With `common=1` the guarantee would be 0.081 where 0.118 is true."""
    right = Doubled(categories=4, local_epsilon=1)
    assert shoal.amplify(right, reports=1000).epsilon(1e-6) == pytest.approx(0.117825, rel=1e-5)
    with pytest.raises(ParameterError, match=r"0 outputs support categories 0 and 1, and its design says 1"):
        shoal.amplify(Doubled(categories=4, local_epsilon=1, shared=1), reports=1000)


def test_a_blanket_without_the_worst_pair_is_refused() -> None:
    """Its guarantee would be below its own lower limit."""
    log, weak = math.log(3), 0.1
    same = shoal.Likelihoods(((0.0, -log, 0.75), (0.0, log, 0.25)), complete=True)
    gain = math.exp(weak)
    share = 1 / (1 + gain)
    near = shoal.Likelihoods(((weak, 0.0, share), (0.0, weak, share)), rest=1 - 2 * share)
    lying = SimpleNamespace(local_epsilon=log, blanket=(near,), homogeneous=(same,))
    with pytest.raises(ParameterError, match="the easiest to tell apart must be among them"):
        shoal.amplify(lying, reports=1000)
