"""A newcomer can follow the ε of 365 rounds through a few files, and through at most two passes of the loop."""

import sys
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

import shoal

_SOURCE = Path(shoal.__file__).parent
_LOOP = [  # the picture in docs/design.md
    "composition/loss_accountant.py",
    "numerics/profile_grid.py",
    "numerics/convolution.py",
]


def _walked(reports: int) -> Counter[tuple[str, str]]:
    """Return how often each function runs, by file and name; what is cached does not run again."""
    calls: Counter[tuple[str, str]] = Counter()

    def note(frame: FrameType, event: str, _: Any) -> None:
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(_SOURCE):
            calls[str(path.relative_to(_SOURCE)), frame.f_code.co_name] += 1

    curve = shoal.amplify(shoal.RandomizedResponse(categories=16, local_epsilon=2), reports=reports)
    year = curve.repeated(365)
    sys.setprofile(note)
    try:
        year.epsilon(1e-6)
    finally:
        sys.setprofile(None)
    return calls


def test_many_rounds_are_a_short_walk() -> None:
    calls = _walked(12_345)
    files = list(dict.fromkeys(name for name, _ in calls))
    assert set(_LOOP) <= set(files)
    upper = [name for name in files if name.split("/")[0] in ("composition", "curve.py", "checks.py")]
    assert sorted(upper) == ["checks.py", "composition/loss_accountant.py", "curve.py"]
    assert len(files) <= 18, files


def test_two_passes_are_enough() -> None:
    calls = _walked(12_346)
    assert calls["composition/loss_accountant.py", "_summed"] == 2
    assert calls["numerics/profile_grid.py", "dominating"] == 2
