"""Files of a folder are imported by the ends of their names."""

import sys
from pathlib import Path

import pytest

from shoal.lazy_names import gather


def test_only_files_with_the_suffix_are_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "gathered_here"
    folder.mkdir()
    for name in ("__init__", "one_claim", "two_claim", "other"):
        (folder / f"{name}.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    gather("gathered_here", suffix="_claim")
    imported = {name for name in sys.modules if name.startswith("gathered_here.")}
    assert imported == {"gathered_here.one_claim", "gathered_here.two_claim"}
    for name in (*imported, "gathered_here"):
        monkeypatch.delitem(sys.modules, name)
