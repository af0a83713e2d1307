"""A damaged folder on the command line: `status` says so, nothing else works with it, and `salvage` saves the rest."""

import random
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from shoal.collect.round_state import record
from shoal.collect.shuffler import Shuffler
from shoal.collect.stores.sqlite import SqliteStore
from tests.cli.commands import facts_of, refused, run
from tests.collect.world import World, make_exact_world


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """Make a folder with 300 reports in a round whose time is over, and one page that was overwritten."""
    monkeypatch.chdir(tmp_path)
    made = make_exact_world(tmp_path, minimum=100)
    (tmp_path / "rounds").mkdir()
    store = SqliteStore(tmp_path / "rounds" / "shuffler.db", made.task, now=0)
    shuffler = Shuffler(made.task, store, tmp_path / "rounds", made.shuffler_key)
    shuffler.accept(1, [record(body) for body in made.sealed(range(300))])
    shuffler.shut()
    with closing(sqlite3.connect(tmp_path / "rounds" / "shuffler.db")) as database:
        (pages,) = database.execute("PRAGMA page_count").fetchone()
    with (tmp_path / "rounds" / "shuffler.db").open("r+b") as file:
        file.seek((pages - 1) * 4096)
        file.write(random.randbytes(4096))
    return made


def test_a_full_disk_is_told_with_the_file(world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And not as a result that cannot be printed, which is what a full standard output is told as."""
    small = tmp_path / "small"
    small.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4k", "none", str(small)], check=False).returncode:
        pytest.skip("no small disk can be made here")
    try:
        (small / "full").write_bytes(bytes(4096))
        told = refused(capsys, "keygen analyst --folder small")
        assert "cannot write small/analyst.key: No space left on device" in told
    finally:
        subprocess.run(["umount", str(small)], check=True)


@pytest.mark.slow
def test_damage_is_told_and_the_rest_is_saved(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    common = "--task task.json --folder rounds"
    key = f"--key {world.shuffler['private_key'].relative_to(world.folder)}"
    status, out, _ = run(capsys, f"shuffler status {common}")
    told = " ".join(out.split())
    assert status == 1 and "damaged: no report is taken" in told and "shoal shuffler salvage" in told
    assert facts_of(capsys, f"shuffler status {common}", status=1)["trouble"] is not None
    for verb in ("seal", "purge"):
        assert "shoal shuffler salvage" in refused(capsys, f"shuffler {verb} {common} {key}")
    served = {
        "--tls-certificate": world.shuffler["tls_certificate"],
        "--tls-key": world.shuffler["tls_key"],
        "--analyst-certificate": world.analyst["tls_certificate"],
    }
    options = " ".join(f"{name} {path}" for name, path in served.items())
    assert "shoal shuffler salvage" in refused(capsys, f"shuffler serve {common} {key} {options} --open")
    status, out, _ = run(capsys, f"shuffler salvage {common} {key} --output saved")
    told = " ".join(out.split())
    assert status == 0 and "reports saved; some may be missing" in told and "never again with rounds" in told
    saved = int(told.split(" reports saved")[0].replace(",", ""))
    assert 230 < saved < 300
    assert "not empty" in refused(capsys, f"shuffler salvage {common} {key} --output saved")
    found = facts_of(capsys, f"shuffler salvage {common} {key} --output again")
    assert found["saved"] == saved and found["may_be_missing"] is True
    assert [(one["number"], one["saved"]) for one in found["rounds"]] == [(1, saved)]
    assert facts_of(capsys, "shuffler status --task task.json --folder saved")["trouble"] is None
    released = facts_of(capsys, f"shuffler seal --task task.json --folder saved {key}")
    assert [(one["round"], one["state"], one["reports"]) for one in released["rounds"]] == [(1, "ready", saved)]
