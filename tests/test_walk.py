"""A newcomer can follow `amplify(...).epsilon(...)` through a few files, downward."""

import sys
import tomllib
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import shoal

_ROOT = Path(__file__).parents[1]
_SOURCE = _ROOT / "src" / "shoal"
_MOST_FILES = 8


def _walked(bound: str = "strong-clones") -> tuple[list[str], set[tuple[str, str]]]:
    """Return the files whose functions run, in the order in which they are entered, and who calls whom."""
    files: list[str] = []
    calls: set[tuple[str, str]] = set()

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event != "call":
            return
        path = Path(frame.f_code.co_filename)
        if not path.is_relative_to(_SOURCE):
            return
        name = str(path.relative_to(_SOURCE))
        if name not in files:
            files.append(name)
        caller = frame.f_back
        while caller is not None and not Path(caller.f_code.co_filename).is_relative_to(_SOURCE):
            caller = caller.f_back
        if caller is not None:
            calls.add((str(Path(caller.f_code.co_filename).relative_to(_SOURCE)), name))

    amplify = shoal.amplify  # loaded
    sys.setprofile(note)
    try:
        amplify(local_epsilon=1, reports=10_000, bound=bound).epsilon(1e-6)
    finally:
        sys.setprofile(None)
    return files, calls


def _layer(path: str) -> int:
    """Return the layer of a file: 0 is the highest."""
    layers = tomllib.loads((_ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"][0]["layers"]
    name = "shoal." + path.removesuffix(".py").split("/")[0]
    (layer,) = (
        index for index, line in enumerate(layers) if name in line.replace(":", "|").replace(" ", "").split("|")
    )
    return layer


def test_amplify_is_a_short_walk() -> None:
    files, _ = _walked()
    assert files[0] == "amplification/amplify.py"
    above = [name for name in files if _layer(name) <= _layer("curve.py") or name == "checks.py"]
    assert above == ["amplification/amplify.py", "checks.py", "amplification/clones.py", "curve.py"]
    assert len(files) <= _MOST_FILES, files


def test_comparing_two_bounds_adds_the_files_of_the_second_and_how_it_rounds() -> None:
    one, both = _walked()[0], _walked("tightest")[0]
    assert set(both) - set(one) == {"amplification/swap_chains.py", "numerics/swap_chain.py", "rounding.py"}


def test_the_walk_goes_downward() -> None:
    """No function calls up into a higher layer, but for what it was handed by it."""
    calls = _walked()[1] | _walked("tightest")[1]
    handed = {  # functions to apply, to search, and to sum
        ("checks.py", "curve.py"),
        ("curve.py", "amplification/swap_chains.py"),
        ("searches.py", "amplification/swap_chains.py"),
        ("searches.py", "pairs/pair.py"),
        ("numerics/binomial.py", "pairs/clone_pair.py"),
    }
    assert [call for call in sorted(calls - handed) if _layer(call[0]) > _layer(call[1])] == []


@pytest.mark.slow
def test_the_lower_limit_is_not_built_unless_it_is_asked_for() -> None:
    files, _ = _walked()
    assert not [name for name in files if "lower" in name or "likelihood" in name or "support" in name]
