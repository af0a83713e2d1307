"""An analyst, a client and a shuffler of a search that are killed: one list a round, charged once, and one report."""

import json
import signal
from pathlib import Path

import pytest

import shoal
from tests.collect.actors import search_step
from tests.collect.running import Running
from tests.collect.test_faults import HUNTED
from tests.collect.world import make_hunt_world

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:Exception ignored in.*SSLSocket:pytest.PytestUnraisableExceptionWarning"),
]


def test_every_point_has_its_kills() -> None:
    assert set(HUNTED) == {"list stored", "list pinned", "list written"}


def test_everybody_is_killed_in_turn(place: str, tmp_path: Path) -> None:
    """Whoever it was: the same list is signed, stored and pinned afterwards, and the ledger has one entry."""
    world = make_hunt_world(tmp_path / "world", round_seconds=3600)
    shuffler = Running(world, place, tmp_path / "batches", tmp_path / "run")
    path, work, person = f"/v1/tasks/{world.task.id}/rounds/1/list", tmp_path / "work", tmp_path / "person"
    with shuffler.start("list stored"):
        assert search_step(shuffler, work, "list written") == -signal.SIGKILL
        written = (work / "lists" / "1.json").read_bytes()
        assert shuffler.ask(path).status == 409
        assert search_step(shuffler, work) == 1  # the list is there, and handed over as it is; the shuffler dies
        shuffler.wait_killed()
        shuffler.start()
        assert shuffler.ask(path).status == 409  # the kill was before the commit
        assert search_step(shuffler, person, value="go") == 1  # and nobody can report
        assert search_step(shuffler, work) == 0 and search_step(shuffler, work) == 0
        assert shuffler.ask(path).body == written == (work / "lists" / "1.json").read_bytes()
        assert len(shoal.Ledger(work / "ledger.json")) == 1
        assert search_step(shuffler, person, "list pinned", "go") == -signal.SIGKILL
        assert json.loads((person / "lists.json").read_text())["lists"] == [written.decode()]
        assert not (person / "report.json").exists()
        assert search_step(shuffler, person, value="go") == 0
        kept = json.loads((person / "report.json").read_text())
        assert kept["sent"] and search_step(shuffler, person, value="go") == 0
        assert json.loads((person / "report.json").read_text()) == kept
        shuffler.stop()
