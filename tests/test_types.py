"""A type checker learns that `curve.epsilon(1e-6)` is a float; no public signature of the accountant says Any."""

import inspect
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, get_overloads, get_type_hints

import pytest

import shoal

_ROOT = Path(__file__).parents[1]
_FUNCTIONS = [shoal.amplify, shoal.compare, shoal.lower_bound, shoal.compose, shoal.calibrate, shoal.explain]
_METHODS = [
    getattr(kind, name)
    for kind in (shoal.PrivacyCurve, shoal.Comparison, shoal.LowerBound)
    for name in ("epsilon", "delta", "renyi")
    if hasattr(kind, name)
]


@pytest.mark.parametrize("function", [*_FUNCTIONS, *_METHODS], ids=lambda function: function.__qualname__)
def test_no_public_signature_says_any(function: Any) -> None:
    hints = get_type_hints(function)
    assert set(inspect.signature(function).parameters) - {"self"} <= set(hints)
    for each in (function, *get_overloads(function)):
        assert Any not in get_type_hints(each).values()
    assert len(get_overloads(function)) == (2 if function in _METHODS else 0)


@pytest.mark.slow
def test_mypy_learns_the_types(tmp_path: Path) -> None:
    """The lines of typed_use.py are right, and would be refused if `epsilon` gave anything else."""
    text = (_ROOT / "tests" / "typed_use.py").read_text()
    right, wrong = tmp_path / "right.py", tmp_path / "wrong.py"
    right.write_text(text)
    wrong.write_text(text.replace("assert_type(curve.epsilon(1e-6), float)", "assert_type(curve.epsilon(1e-6), int)"))
    command = [sys.executable, "-m", "mypy", "--config-file", "pyproject.toml", str(right), str(wrong)]
    environment = {**os.environ, "MYPYPATH": "src"}
    result = subprocess.run(command, cwd=_ROOT, env=environment, capture_output=True, text=True, check=False)
    assert result.stdout.count("error:") == 1, result.stdout + result.stderr
    assert 'wrong.py:12: error: Expression is of type "float", not "int"' in result.stdout
