"""`explain` knows every name that an answer can carry, and where its proof is."""

import json
import re
from pathlib import Path

import pytest

import shoal
from shoal.amplification.amplify import proven_bounds
from shoal.cli import main
from shoal.documentation import SITE, linked
from shoal.pairs.discrete_laplace import MixProfile
from tests.cli.commands import refused, run

_ROOT = Path(__file__).parents[2]
_NAMES = [(row.kind, row.name) for row in shoal.theorems() if row.proven]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "name"), _NAMES)
def test_every_name_is_explained(kind: str, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", name, "--kind", kind, "--json"]) == 0
    row = json.loads(capsys.readouterr().out)
    assert row == shoal.explain(name, kind=kind).to_dict()
    assert (row["name"], row["kind"], row["proven"]) == (name, kind, True)
    for key in ("statement", "assumptions", "citation", "needs", "range", "proof"):
        assert row[key]
    status, out, _ = run(capsys, f"explain {name} --kind {kind}")
    assert status == 0
    for title in (name, "about", "statement", "assumes", "theorem", "proof"):
        assert f"\n{title}" in f"\n{out}"


def test_the_list_has_each_name_once_for_each_kind(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "--json"]) == 0
    listed = [(row["kind"], row["name"]) for row in json.loads(capsys.readouterr().out)]
    assert len(set(listed)) == len(listed)
    assert set(_NAMES) <= set(listed)
    assert {kind for kind, _ in listed} == {"shuffling", "composition", "training"}
    assert main(["explain"]) == 0
    assert all(re.search(rf"(?m)^{name} ", text) for text in [capsys.readouterr().out] for _, name in listed)
    assert "nonsense" in refused(capsys, "explain nonsense")
    assert "did you mean training" in refused(capsys, "explain clones --kind trainings")


@pytest.mark.parametrize("name", ["gaussian-clones", "plain", "pld", "strong-clones"])
def test_a_name_is_enough(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", name]) == 0
    assert capsys.readouterr().out.startswith(name)
    row = shoal.explain(name)
    assert row == next(each for each in shoal.theorems() if each.name == name)
    assert name in repr(row)
    assert linked(row.citation) in repr(row)
    assert f"<caption>{name}</caption>" in row._repr_html_()


def test_a_theorem_is_looked_for_among_those_of_its_kind() -> None:
    assert shoal.explain("clones") == shoal.explain("clones", kind="shuffling")
    with pytest.raises(shoal.ParameterError, match="name must be one of pld"):
        shoal.explain("clones", kind="composition")


def test_proofs_are_where_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    """Every page is there, and has the sections that are named."""
    assert main(["explain", "--json"]) == 0
    named = 0
    for row in json.loads(capsys.readouterr().out):
        for page, sections in re.findall(rf"{SITE}(theory/[\w-]+)\.html(?:, sections? ([\d and to]+))?", row["proof"]):
            text = (_ROOT / "docs" / f"{page}.md").read_text()
            for number in re.findall(r"\d+", sections):
                assert re.search(rf"(?m)^## {number}\. ", text), (row["name"], page, number)
                named += 1
    assert named >= 10


def test_answers_carry_names_that_are_explained(capsys: pytest.CaptureFixture[str]) -> None:
    for command in (
        "amplify --local-epsilon 1 --reports 100",
        "compose --local-epsilon 1 --reports 100 --rounds 3",
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
    {"randomizer": shoal.Covered(categories=20, slots=1, fill=0.2)},
    {"randomizer": shoal.Dummies(categories=20, epsilon=0.5, limit=50)},
    {"randomizer": shoal.SplitAndMix.fitted(epsilon=0.5, delta=1e-6, honest=20_000, people=20_000)},
]


@pytest.mark.slow
@pytest.mark.parametrize("bound", [bound for bound in proven_bounds() if bound != "tightest"])
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
        except shoal.errors.NoPairError as error:
            (other,) = re.findall('bound="([a-z-]+)"', str(error))
            assert other != bound
            assert shoal.amplify(**kind, reports=20_000, bound=other).certify(delta=1e-6).verify()  # type: ignore[arg-type]
    assert tried


def test_a_profile_of_ones_own_has_no_certificate_and_no_other_bound() -> None:
    class Other(MixProfile):
        """With other numbers, perhaps: a claim is not inherited."""

    class Mine(shoal.SplitAndMix):
        """With a profile of its own."""

        def profile(self, reports: int) -> MixProfile:
            return Other(self.honest, self.messages, self.modulus, self.decay, self.steps)

    curve = shoal.amplify(Mine(epsilon=0.5, honest=1000, people=1000, messages=12), reports=1000)
    with pytest.raises(shoal.errors.NoPairError, match="no proof in ball arithmetic"):
        curve.certify(delta=1e-6)


@pytest.mark.slow
def test_what_could_not_be_proved_says_so() -> None:
    curve = shoal.amplify(shoal.Gaussian(sigma=0.05), reports=10**5)
    with pytest.raises(
        shoal.errors.UnreachableError, match="could not be proved of 100,000 shuffled reports of Gaussian"
    ):
        curve.certify(delta=1e-6)
