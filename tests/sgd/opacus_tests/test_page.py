"""The script of docs/opacus.md runs as it stands, and prints what the page says."""

import re
from pathlib import Path

import pytest

_PAGE = Path(__file__).parents[3] / "docs" / "opacus.md"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Full backward hook is firing", "ignore:Secure RNG turned off")
def test_the_script_prints_what_the_page_says(capsys: pytest.CaptureFixture[str]) -> None:
    (script,), (printed,) = (
        re.findall(rf"```{kind}\n(.*?)```", _PAGE.read_text(), re.DOTALL) for kind in ("python", "text")
    )
    exec(compile(script, str(_PAGE), "exec"), {})
    assert capsys.readouterr().out == printed
