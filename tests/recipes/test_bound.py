"""The recipe "add a bound", followed with a toy: one file, and every door knows it."""

from pathlib import Path

import pytest

from shoal.calibration.target import ROOM
from tests.recipes.copied_package import PRINTED, CopiedPackage

_BOUND = '''"""The local guarantee: shuffling never makes anything worse."""

from shoal.amplification.closed_form import FormulaProfile
from shoal.amplification.setting import Setting
from shoal.amplification.setting import ShufflingBound
from shoal.assumptions import ADAPTIVE, PURE
from shoal.catalogue import register

__all__ = ["local_form"]


def local_form(setting: Setting) -> FormulaProfile:
    """Return ε = ε₀, for every δ."""
    return FormulaProfile(lambda delta: setting.local_epsilon, 0.0, setting.local_epsilon, str, "strong-clones")


register(
    ShufflingBound(
        name="local",
        statement="ε = ε₀.",
        citation="post-processing of ε₀-DP reports",
        assumptions=(PURE, *ADAPTIVE),
        numerical=False,
        make=local_form,
        proof="the definition",
        preference=PREFERENCE,
    )
)
'''

_QUESTIONS = (
    PRINTED
    + """
import shoal

kind = {"local_epsilon": 1.5, "reports": 1000}
print(json.dumps({
    "epsilon": shoal.amplify(**kind, bound="local").epsilon(1e-6),
    "curve": repr(shoal.amplify(**kind, bound="local")),
    "tightest": shoal.amplify(**kind).bound,
    "compared": [curve.bound for curve in shoal.compare(**kind, delta=1e-6)],
    "theorems": [row.name for row in shoal.theorems("shuffling")],
    "explained": shoal.explain("local").to_dict(),
    "calibrated": shoal.calibrate(epsilon=1, delta=1e-6, reports=1000, bound="local").local_epsilon,
    "explain": printed("explain local"),
    "amplify": json.loads(printed("amplify --local-epsilon 1.5 --reports 1000 --bound local --json")),
    "compare": printed("compare --local-epsilon 1.5 --reports 1000"),
    "help": printed("amplify --help"),
}))
"""
)


@pytest.mark.slow
@pytest.mark.parametrize("preference", [2, 1])
def test_a_closed_form_is_one_file(preference: int, tmp_path: Path) -> None:
    package = CopiedPackage(tmp_path)
    package.add("amplification/local_form.py", _BOUND.replace("PREFERENCE", str(preference)))
    assert package.touched == ["amplification/local_form.py"]
    answers = package.answers(_QUESTIONS)
    assert answers["epsilon"] == answers["amplify"]["epsilon"] == 1.5
    assert answers["curve"] == "PrivacyCurve(ε=1.5 at δ=1e-06, n=1,000, ε₀=1.5, local)"
    # With a 2 it is compared with the strong clones, which are smaller; with a 1 it is not.
    assert answers["tightest"] == ("local" if preference == 1 else "strong-clones")
    assert "local" in answers["compared"]
    assert "local" in answers["theorems"]
    assert answers["explained"]["citation"] == "post-processing of ε₀-DP reports"
    assert 1 - ROOM - 1e-8 <= answers["calibrated"] <= 1
    assert answers["explain"].startswith("local\n")
    assert "post-processing of ε₀-DP reports" in answers["compare"]
    assert " local" in answers["help"]


@pytest.mark.slow
def test_a_name_is_taken_once(tmp_path: Path) -> None:
    package = CopiedPackage(tmp_path)
    package.add("amplification/local_form.py", _BOUND.replace("PREFERENCE", "None").replace('"local"', '"clones"'))
    with pytest.raises(AssertionError, match="there is a shuffling theorem 'clones' already"):
        package.answers("import shoal; shoal.amplify(local_epsilon=1, reports=10)")
