"""The recipe "add a composition method", followed with a toy: one file, and every door knows it."""

from pathlib import Path

import pytest

from tests.recipes.copied_package import PRINTED, CopiedPackage

_METHOD = '''"""Basic composition: the ε₀ of all rounds, added up."""

from dataclasses import dataclass

from shoal.catalogue import register
from shoal.composition.composition_method import CompositionMethod, Round, total_local_epsilon
from shoal.privacy_profile import UpperProfile

__all__ = ["BasicProfile"]


@dataclass(frozen=True)
class BasicProfile(UpperProfile):
    """What pure DP gives, whatever the shuffler does."""

    rounds: tuple[Round, ...]

    no_bracket = 'basic composition has no exact value to bracket; use method="pld"'
    no_renyi = 'basic composition has no Rényi divergence; use method="renyi"'

    def epsilon(self, delta: float) -> float:
        """Return the sum of all ε₀."""
        return total_local_epsilon(self.rounds)

    def delta(self, epsilon: float) -> float:
        """Return 0 from the sum on, and 1 below."""
        return 0.0 if epsilon >= self.epsilon(0.0) else 1.0


register(
    CompositionMethod(
        name="basic",
        statement="ε = Σ ε₀.",
        citation="basic composition of ε₀-DP rounds",
        make=BasicProfile,
        numerical=False,
        proof="the definition",
    )
)
'''

_QUESTIONS = (
    PRINTED
    + """
import pytest

import shoal

curve = shoal.amplify(local_epsilon=1.5, reports=1000)
both = shoal.compose([(curve, 3), shoal.amplify(local_epsilon=1, reports=500)], method="basic")
try:
    refusal = both.epsilon_bracket(1e-6)
except shoal.errors.NoPairError as error:
    refusal = str(error)
print(json.dumps({
    "epsilon": both.epsilon(1e-6),
    "repeated": curve.repeated(4, method="basic").epsilon(1e-6),
    "curve": repr(both),
    "refusal": refusal,
    "theorems": [row.name for row in shoal.theorems("composition")],
    "explained": shoal.explain("basic").to_dict(),
    "explain": printed("explain basic"),
    "compose": json.loads(printed("compose --local-epsilon 1.5 --reports 1000 --rounds 4 --method basic --json")),
    "help": printed("compose --help"),
}))
"""
)


@pytest.mark.slow
def test_a_composition_method_is_one_file(tmp_path: Path) -> None:
    package = CopiedPackage(tmp_path)
    package.add("composition/basic_accountant.py", _METHOD)
    assert package.touched == ["composition/basic_accountant.py"]
    answers = package.answers(_QUESTIONS)
    assert answers["epsilon"] == 5.5
    assert answers["repeated"] == answers["compose"]["epsilon"] == 6
    assert answers["curve"] == "PrivacyCurve(ε=5.5 at δ=1e-06, 4 rounds, n ≥ 500, basic)"
    assert answers["refusal"] == 'basic composition has no exact value to bracket; use method="pld"'
    assert answers["theorems"] == ["pld", "renyi", "advanced", "advanced-closed-form", "basic"]
    assert answers["explained"]["kind"] == "composition"
    assert answers["compose"]["theorem"].startswith("basic composition of ε₀-DP rounds; each round: ")
    assert answers["explain"].startswith("basic\n")
    assert "basic" in answers["help"]
