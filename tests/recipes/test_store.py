"""The recipe "add a store": one file, and the whole of collection runs on it.

`json_store.py` follows the recipe. As a file in `stores/`, or as the module of an entry point of another package, the
command line opens it by its URL; and the model of collection, with all that clients, time and faults do, holds for it.
"""

import shutil
import time
from pathlib import Path

import pytest
from hypothesis.stateful import run_state_machine_as_test

from shoal.collect import stores
from shoal.collect.round_state import RoundClosedError, State, record
from shoal.collect.store import Store
from tests.cli.commands import facts_of, refused
from tests.collect.model import worlds
from tests.collect.test_model import Collection, model_settings
from tests.collect.world import make_exact_world
from tests.recipes.json_store import JsonStore

TOY = Path(__file__).with_name("json_store.py")


class InJson(Collection):
    """The model of collection, on the toy."""

    def open_store(self) -> Store:
        """Open the store as a process does that starts."""
        return JsonStore(self.folder / "reports.json", self.world.task, now=self.now)


@pytest.mark.slow
def test_a_released_round_is_what_was_acknowledged(tmp_path: Path) -> None:
    made = worlds(tmp_path)
    run_state_machine_as_test(
        lambda: InJson(tmp_path, made),  # type: ignore[arg-type]
        settings=model_settings(8),
    )


@pytest.fixture
def unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the toy not registered yet, and forgotten afterwards."""
    others = {scheme: kind for scheme, kind in stores.kinds().items() if scheme != "json"}
    monkeypatch.setattr(Store, "kinds", others)


@pytest.mark.usefixtures("unknown")
def test_a_file_in_the_folder_of_stores_is_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "stores"
    folder.mkdir()
    shutil.copy(TOY, folder / "toy_of_ours.py")
    monkeypatch.setattr(stores, "__path__", [*stores.__path__, str(folder)])
    _check_command_line(tmp_path / "world", capsys)


@pytest.mark.usefixtures("unknown")
def test_another_package_names_its_module_in_an_entry_point(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copy(TOY, tmp_path / "toy_of_theirs.py")
    about = tmp_path / "toy-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: toy\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[shoal.stores]\njson = toy_of_theirs\n")
    monkeypatch.syspath_prepend(tmp_path)
    _check_command_line(tmp_path / "world", capsys)


def _check_command_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """End, list and purge rounds in the toy by its URL; the command line knows nothing else of it."""
    world, rounds = make_exact_world(folder), folder / "rounds"
    options = f"--task {world.task_path} --folder {rounds}"
    there = f"{options} --database json:kept.json"
    said = refused(capsys, f"shuffler status {options} --database tape:kept")
    assert "begins with json:, postgres:, postgresql:, sqlite:" in said
    assert "there are no rounds" in refused(capsys, f"shuffler status {there}")
    rounds.mkdir()
    store = JsonStore(rounds / "kept.json", world.task, now=time.time() - 100)
    store.add(1, [record(body) for body in world.sealed([1, 2, 3])])
    (one,) = facts_of(capsys, f"shuffler status {there}")["rounds"]
    assert (one["round"], one["state"], one["reports"]) == (1, "open", None)
    key = f"--key {world.shuffler['private_key']}"
    assert facts_of(capsys, f"shuffler seal {there} {key}")["rounds"][0]["reports"] == 3
    assert len(list(rounds.glob("round-1.*.batch"))) == 1
    store.acknowledge(1)
    assert facts_of(capsys, f"shuffler purge {there} {key}")["purged"] == [1]
    assert [one.state for one in store.rounds()] == [State.PURGED, State.OPEN]
    with pytest.raises(RoundClosedError):
        store.add(1, [record(world.sealed([1])[0])])
    (rounds / "kept.json").write_text("{")
    refused(capsys, f"shuffler status {there}")
