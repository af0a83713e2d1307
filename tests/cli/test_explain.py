"""`explain` knows every name that an answer can carry, and where its proof is."""

import json
import re
from pathlib import Path

import pytest

import shoal
from shoal.amplification.amplify import BOUNDS
from shoal.cli import main
from shoal.composition.compose import METHODS
from shoal.sgd.bounds import THEOREMS
from tests.cli.commands import refused, run

_ROOT = Path(__file__).parents[2]
_NAMES = sorted({*BOUNDS, *METHODS, *THEOREMS} - {"tightest"})


@pytest.mark.parametrize("name", _NAMES)
def test_every_name_is_explained(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", name, "--json"]) == 0
    row = json.loads(capsys.readouterr().out)
    assert row["bound"] == name
    assert row["proven"]
    for key in ("statement", "assumptions", "theorem", "needs", "range", "proof"):
        assert row[key]
    status, out, _ = run(capsys, f"explain {name}")
    assert status == 0
    for title in (name, "statement", "assumes", "theorem", "proof"):
        assert f"\n{title}" in f"\n{out}"


def test_the_list_has_each_name_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "--json"]) == 0
    listed = [row["bound"] for row in json.loads(capsys.readouterr().out)]
    assert len(set(listed)) == len(listed)
    assert set(_NAMES) <= set(listed)
    assert "nonsense" in refused(capsys, "explain nonsense")


def test_proofs_are_where_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    """Every page is there, and has the sections that are named."""
    assert main(["explain", "--json"]) == 0
    named = 0
    for row in json.loads(capsys.readouterr().out):
        for page, sections in re.findall(r"(docs/theory/[\w-]+\.md)(?:, sections? ([\d and to]+))?", row["proof"]):
            text = (_ROOT / page).read_text()
            for number in re.findall(r"\d+", sections):
                assert re.search(rf"(?m)^## {number}\. ", text), (row["bound"], page, number)
                named += 1
    assert named >= 10


def test_answers_carry_names_that_are_explained(capsys: pytest.CaptureFixture[str]) -> None:
    for command in (
        "amplify --local-epsilon 1 --reports 100",
        "compose --local-epsilon 1 --reports 100 --times 3",
        "sgd --examples 1000 --noise-multiplier 8",
        "sgd --examples 1000 --noise-multiplier 0.5",
    ):
        assert main([*command.split(), "--json"]) == 0
        assert main(["explain", json.loads(capsys.readouterr().out)["bound"]]) == 0
        capsys.readouterr()


_KINDS = [
    {"local_epsilon": 0.4},
    {"randomizer": shoal.RandomizedResponse(categories=2, local_epsilon=1)},
    {"randomizer": shoal.RandomizedResponse(categories=20, local_epsilon=1)},
    {"randomizer": shoal.HadamardResponse(categories=20, local_epsilon=1)},
    {"randomizer": shoal.Laplace(local_epsilon=1)},
    {"randomizer": shoal.OneBitMean(local_epsilon=1)},
]


@pytest.mark.parametrize("bound", [bound for bound in BOUNDS if bound != "tightest"])
def test_a_bound_without_a_certificate_names_one_that_has(bound: str) -> None:
    tried = 0
    for kind in _KINDS:
        try:
            curve = shoal.amplify(**kind, reports=20_000, bound=bound)  # type: ignore[arg-type]
        except shoal.ParameterError:
            continue  # it does not apply
        tried += 1
        try:
            assert curve.certify(delta=1e-6).verify()
        except shoal.NoPairError as error:
            (other,) = re.findall('bound="([a-z-]+)"', str(error))
            assert other != bound
            assert shoal.amplify(**kind, reports=20_000, bound=other).certify(delta=1e-6).verify()  # type: ignore[arg-type]
    assert tried


def test_gaussian_noise_has_no_certificate_and_no_false_advice() -> None:
    curve = shoal.amplify(shoal.Gaussian(deviation=1), reports=1000)
    with pytest.raises(shoal.NoPairError, match=r"nor has any bound of Gaussian noise$"):
        curve.certify(delta=1e-6)
