"""A task that was never served in a database: whoever looks makes nothing there."""

from pathlib import Path

import pytest

from shoal.cli import main
from tests.collect.database import Cluster
from tests.collect.world import make_exact_world

psycopg = pytest.importorskip("psycopg")


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["status", "seal", "purge"])
def test_looking_makes_nothing(cluster: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str], verb: str) -> None:
    world = make_exact_world(tmp_path)
    options = ["--task", str(world.task_path), "--folder", str(tmp_path / "rounds"), "--database", cluster.url]
    key = [] if verb == "status" else ["--key", str(world.shuffler["private_key"])]
    assert main(["shuffler", verb, *options, *key]) == 2
    assert "there are no rounds of this task in PostgreSQL; `shoal shuffler serve` begins" in capsys.readouterr().err
    with psycopg.connect(cluster.url) as database:
        name = f"shoal_{world.task.id[:56]}"
        assert database.execute("SELECT FROM pg_namespace WHERE nspname = %s", (name,)).fetchone() is None
    assert not (tmp_path / "rounds").exists()
