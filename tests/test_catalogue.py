"""One catalogue: what is chosen, refused and listed follows from its rows, and from nothing else."""

import ast
import dataclasses
from pathlib import Path
from typing import Any

import pytest

import shoal
from shoal.amplification import amplify as door
from shoal.amplification.setting import BOUNDS
from shoal.assumptions import FRESH, OF_EACH, Assumption
from shoal.catalogue import KINDS, register
from shoal.composition import compose as composing
from shoal.composition.composition_method import METHODS
from shoal.sgd import bounds as training
from shoal.sgd.bounds import THEOREMS

_SOURCE = Path(shoal.__file__).parent


def _changed(rows: Any, name: str, **values: Any) -> dict[str, Any]:
    """Return the rows with one of them changed, in the order of the catalogue."""
    changed = [dataclasses.replace(row, **values) if row.name == name else row for row in rows.values()]
    return {row.name: row for row in sorted(changed, key=lambda row: row.preference or 99)}


@pytest.mark.parametrize("kind", [*KINDS, None])
def test_the_catalogue_is_in_order_and_complete(kind: str | None) -> None:
    rows = shoal.theorems(kind)
    assert rows == tuple(row for each in KINDS if kind in (None, each) for row in shoal.theorems(each))
    for row in rows:
        assert all((row.name, row.statement, row.citation, row.assumptions, row.needs, row.range, row.proof))
        assert shoal.explain(row.name, kind=row.kind) is row
    turns = [row.preference for row in rows if row.kind == "shuffling" and row.preference is not None]
    assert turns == sorted(turns)


def test_the_tightest_follows_from_the_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """A preferred bound is taken, and bounds with the same preference are compared."""
    response = shoal.RandomizedResponse(categories=20, local_epsilon=1)
    assert shoal.amplify(local_epsilon=1, reports=1000).bound == "strong-clones"
    assert shoal.amplify(response, reports=1000).bound == "blanket"
    monkeypatch.setattr(door, "BOUNDS", _changed(BOUNDS, "girgis", preference=1))
    assert shoal.amplify(local_epsilon=1, reports=1000).bound == "girgis"
    monkeypatch.setattr(door, "BOUNDS", _changed(BOUNDS, "clones", preference=2))
    assert shoal.amplify(local_epsilon=1, reports=1000).bound == "strong-clones"
    monkeypatch.setattr(door, "BOUNDS", _changed(BOUNDS, "blanket", preference=None))
    assert shoal.amplify(response, reports=1000).bound == "decomposition"
    monkeypatch.setattr(door, "BOUNDS", {"clones": BOUNDS["clones"]})
    with pytest.raises(shoal.ParameterError, match="no bound applies"):
        shoal.amplify(local_epsilon=1, reports=1000)


def test_what_is_not_proven_is_never_a_guarantee(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even if a row of it is preferred."""
    monkeypatch.setattr(door, "BOUNDS", _changed(BOUNDS, "bassily", preference=1))
    assert shoal.amplify(local_epsilon=1, reports=1000).bound == "strong-clones"
    curve = shoal.amplify(local_epsilon=1, reports=1000)
    monkeypatch.setattr(composing, "METHODS", _changed(METHODS, "renyi", proven=False))
    with pytest.raises(shoal.ParameterError, match="comparison only"):
        shoal.compose([(curve, 3)], method="renyi")
    run = shoal.sgd.Run(examples=3000, noise_multiplier=4)
    assert training.bounds.__wrapped__(run, 1e-6)[0].name == "gaussian-clones"
    monkeypatch.setattr(training, "THEOREMS", _changed(THEOREMS, "gaussian-clones", proven=False))
    with pytest.raises(
        shoal.ParameterError, match="by 'gaussian-clones'; a bound is a number of at least 0, by a theo"
    ):
        training.bounds.__wrapped__(run, 1e-6)


def test_a_composition_says_all_that_its_method_assumes(monkeypatch: pytest.MonkeyPatch) -> None:
    moon = Assumption("the moon is full")
    more = _changed(METHODS, "renyi", assumptions=(FRESH, moon, OF_EACH))
    monkeypatch.setattr(composing, "METHODS", more)
    curve = shoal.amplify(local_epsilon=1, reports=1000)
    both = shoal.compose([(curve, 3)], method="renyi")
    assert both.assumptions == (FRESH, moon, *curve.assumptions)


def test_a_name_is_registered_once() -> None:
    for row in shoal.theorems():
        with pytest.raises(shoal.ParameterError, match=f"there is a {row.kind} theorem '{row.name}' already"):
            register(row)


@pytest.mark.parametrize("path", ["amplification/amplify.py", "composition/compose.py", "cli/app.py", "cli/options.py"])
def test_no_door_knows_a_theorem_by_name(path: str) -> None:
    """But for the default method, and in examples and error messages."""
    names = {row.name for row in shoal.theorems()} - {"pld"}
    tree = ast.parse((_SOURCE / path).read_text())
    texts = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)]
    assert not names & {text for text in texts if isinstance(text, str)}
