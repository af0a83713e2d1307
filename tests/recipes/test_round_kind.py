"""CONTRIBUTING's recipe "add a round kind", executed as it stands there: one file that all of collection asks."""

import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shoal.collect
from shoal.collect import kinds
from shoal.collect.analyst import Analyst
from shoal.collect.kinds.dummy_rounds import DummyRounds
from shoal.collect.round_state import record
from shoal.collect.shuffler import Shuffler
from shoal.collect.stores.sqlite import SqliteStore
from shoal.collect.task import Task
from shoal.errors import FormatError, ParameterError
from tests.cli.commands import facts_of
from tests.collect.world import make_covered_world, make_exact_world

_RECIPE = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text(encoding="utf-8").split("### Add a round kind")[1]
_SOURCE = _RECIPE.split("```python\n")[1].split("```")[0]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Yield a folder of kinds with the one file; afterwards nothing of it is left."""
    place = tmp_path / "kinds"
    place.mkdir()
    monkeypatch.setattr(kinds, "__path__", [*kinds.__path__, str(place)])
    monkeypatch.setattr(kinds.RoundKind, "formats", dict(kinds.kinds()))
    kinds.kinds.cache_clear()
    (place / "witnessed_rounds.py").write_text(_SOURCE)
    yield place
    sys.modules.pop("shoal.collect.kinds.witnessed_rounds", None)
    kinds.kinds.cache_clear()


def _made() -> Any:
    """Return the kind, which the registry has found by the format of its task files."""
    kind: Any = kinds.kinds()["shoal task 200"]
    return kind("Ada")


@pytest.mark.usefixtures("folder")
def test_one_file_is_enough(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    world = make_exact_world(tmp_path / "world", kind=_made())
    task = world.task
    assert Task.from_bytes(task.to_bytes(), pinned=task.id) == task
    shown = facts_of(capsys, f"task show {world.task_path}")
    assert shown["format"] == "shoal task 200" and shown["witness"] == "Ada"
    store = SqliteStore(tmp_path / "shuffler.db", task, now=0)
    shuffler = Shuffler(task, store, tmp_path / "rounds", world.shuffler_key, clock=lambda: 60.0)
    shuffler.accept(1, [record(body) for body in world.sealed(np.arange(30) % 3)])
    shuffler.tick()
    analyst = Analyst(tmp_path / "analyst", task)
    (analyst.folder / "batches/1.batch").write_bytes(shuffler.batch_path(1).read_bytes())
    (analyst.folder / "batches/1.manifest").write_bytes(shuffler.released(1)[0])
    shuffler.shut()
    assert analyst.count(1, world.analyst_key, 1).valid == 30
    assert "the shuffler is watched by Ada, tells nobody who sent which" in analyst.result(1).holds


@pytest.mark.usefixtures("folder")
def test_its_own_fields_are_checked(tmp_path: Path) -> None:
    data = make_exact_world(tmp_path / "world", kind=_made()).task.to_bytes()
    with pytest.raises(ParameterError, match="the witness needs a name"):
        Task.from_bytes(data.replace(b'"Ada"', b'" "'))
    with pytest.raises(FormatError, match="witness"):
        Task.from_bytes(data.replace(b'"Ada"', b"7"))


def test_a_kind_that_does_not_fit_the_mechanism_is_refused(tmp_path: Path) -> None:
    """Bundles need rounds that count people apart from messages, and other mechanisms need rounds that do not."""
    plain, covered = make_exact_world(tmp_path / "plain").task, make_covered_world(tmp_path / "covered").task
    # Rounds with dummies for other mechanisms would state a protection by dummies that nobody adds.
    misfits = ((plain, kinds.Bundles()), (covered, kinds.RoundKind()), (covered, DummyRounds()), (plain, DummyRounds()))
    for task, kind in misfits:
        with pytest.raises(ParameterError, match="does not fit rounds of the kind"):
            replace(task, kind=kind)


@pytest.mark.usefixtures("folder")
def test_without_the_file_the_task_is_of_a_later_version(tmp_path: Path) -> None:
    path = make_exact_world(tmp_path / "world", kind=_made()).task_path
    code = "import sys; from pathlib import Path; from shoal.collect import Task; Task.read(Path(sys.argv[1]))"
    told = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, check=False).stderr.decode()
    assert "FormatError" in told


def test_nothing_else_decides_by_the_kind() -> None:
    """Collection and its verbs ask the kind of a task, and do not look which one it is."""
    decision = re.compile(r"isinstance\([^()]*\b(Bundled|Dummies|Covered)\b|\bhunt is (not )?None")
    collect = Path(shoal.collect.__file__).parent
    files = [*collect.rglob("*.py"), *(collect.parent / "cli").rglob("*.py")]
    found = [path.name for path in files if path.parent.name != "kinds" and decision.search(path.read_text())]
    assert not found
