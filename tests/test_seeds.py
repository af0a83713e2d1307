"""What a test draws can be drawn again: it prints its seed when it fails, and draws from nothing else."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[1]
_TEST = """
import random
import numpy as np
import pytest

@pytest.fixture(scope="module")
def first():
    return random.random()

def test_fails(first):
    print("drawn:", first, random.randbytes(4).hex(), np.random.random())
    assert False
"""


def _failed(folder: Path, seed: str | None) -> tuple[str, str]:
    """Return what the test drew, and the seed that was printed."""
    environment = {name: value for name, value in os.environ.items() if name != "SHOAL_TEST_SEED"}
    if seed is not None:
        environment["SHOAL_TEST_SEED"] = seed
    command = [sys.executable, "-m", "pytest", "-p", "tests.conftest", "-p", "no:xdist", f"--rootdir={folder}"]
    result = subprocess.run(
        [*command, str(folder / "test_drawn.py")],
        cwd=_ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    drawn = re.search("drawn: (.*)", result.stdout)
    printed = re.search(r"SHOAL_TEST_SEED=(\d+) ", result.stdout)
    assert result.returncode == 1 and drawn and printed, result.stdout + result.stderr
    return drawn[1], printed[1]


@pytest.mark.slow
def test_a_seed_is_printed_and_draws_the_same_again(tmp_path: Path) -> None:
    (tmp_path / "test_drawn.py").write_text(_TEST)
    drawn, seed = _failed(tmp_path, None)
    assert _failed(tmp_path, seed) == (drawn, seed)
    assert _failed(tmp_path, None)[0] != drawn


@pytest.mark.slow
@pytest.mark.parametrize(
    "pattern", [r"os\.urandom\(", r"\bsecrets\.[a-z]+\(", r"default_rng\(\)", r"\bRandom\(\)", r"SystemRandom"]
)
def test_no_test_draws_what_nobody_can_draw_again(pattern: str) -> None:
    files = (path for path in (_ROOT / "tests").rglob("*.py") if path.name not in ("conftest.py", Path(__file__).name))
    assert not [path.name for path in files if re.search(pattern, path.read_text())]
