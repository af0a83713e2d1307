"""What several tests of collection share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from shoal.collect import sender
from tests.collect.database import Cluster, programs, running_cluster
from tests.collect.life import Lives, lives


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let clients give up at the first answer that asks them to wait, except where a test is about waiting."""
    monkeypatch.setattr(sender, "PATIENCE", 0.0)


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """Lend a PostgreSQL server; there is one for each process that runs tests."""
    if programs() is None:
        pytest.skip("PostgreSQL is not installed")
    with running_cluster() as made:
        yield made


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Lives]:
    """Return a function that starts a shuffler for a world in this process; it ends with the test."""
    with lives(tmp_path) as made:
        yield made


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return where a shuffler may keep its reports: a file, or the URL of a database."""
    return _place(request, tmp_path)


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.exhaustive)])
def usual_place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return a place for a test that kills at no commit: the file, and both in `make exhaustive`."""
    return _place(request, tmp_path)


def _place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "reports.db")
    pytest.importorskip("psycopg")
    made: Cluster = request.getfixturevalue("cluster")
    return made.url
