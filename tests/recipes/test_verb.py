"""The recipe "add a verb" of CONTRIBUTING.md, followed with a toy: one file."""

from pathlib import Path

import pytest

from shoal.cli import main, verbs
from shoal.cli.app import app

_VERB = '''
"""The verb `salute`: a toy."""

from shoal.cli.app import OTHER, app
from shoal.cli.options import Count, Json
from shoal.cli.output import show

__all__ = ["salute"]


@app.command(group=OTHER, help_epilogue="Example:  shoal salute --times 2")
def salute(*, times: Count = 1, json: Json = False) -> None:
    """Salute.

    Parameters
    ----------
    times
        how often.
    """
    show({"salute": "o/ " * int(times)}, lambda facts: print(facts["salute"]), json=json)
'''


def test_a_verb_is_one_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "salute.py").write_text(_VERB)
    monkeypatch.setattr(verbs, "__path__", [*verbs.__path__, str(tmp_path)])
    try:
        assert main(["salute", "--times", "2"]) == 0
        assert capsys.readouterr().out == "o/ o/ \n"
        assert main(["--help"]) == 0
        assert "Salute." in capsys.readouterr().out
        assert main(["salute", "--times", "1,5"]) == 2
    finally:
        del app["salute"]
    assert len(list(tmp_path.glob("*.py"))) == 1
