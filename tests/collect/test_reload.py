"""Certificates are replaced while the shuffler runs, and SIGHUP never ends it."""

import shutil
import signal
import ssl
from dataclasses import replace
from pathlib import Path

import pytest

from shoal.collect.connection import Connection
from shoal.collect.keys import make_analyst_keys, make_shuffler_keys
from shoal.errors import CollectError
from tests.collect.running import Running, until
from tests.collect.world import World, make_exact_world


def _presented(shuffler: Running) -> str:
    return ssl.get_server_certificate(("127.0.0.1", shuffler.port))


def _answers(shuffler: Running, world: World) -> bool:
    """Return whether the analyst's listener accepts the certificate of this world's analyst."""
    analyst = world.analyst
    own = world.shuffler["tls_certificate"]
    url = f"https://127.0.0.1:{shuffler.analyst_port}"
    try:
        with Connection(url, own, analyst["tls_certificate"], analyst["tls_key"]) as connection:
            return connection.request("GET", f"/v1/tasks/{world.task.id}/rounds").status == 200
    except CollectError:
        return False


@pytest.mark.slow
def test_certificates_are_read_again(tmp_path: Path) -> None:
    """A renewed certificate is used without a restart; a damaged file leaves the one before in use."""
    world = make_exact_world(tmp_path / "world")
    renewed = make_shuffler_keys(tmp_path / "renewed", ["localhost", "127.0.0.1"])
    other = replace(world, analyst=make_analyst_keys(tmp_path / "other"))
    before = world.shuffler["tls_certificate"].read_text()
    store = tmp_path / "reports.db"
    with Running(world, store, tmp_path / "batches", tmp_path / "run", tls=True) as shuffler:
        assert _presented(shuffler).split() == before.split()
        assert _answers(shuffler, world) and not _answers(shuffler, other)
        for name in ("tls_certificate", "tls_key"):
            shutil.copy(renewed[name], world.shuffler[name])
        shutil.copy(other.analyst["tls_certificate"], world.analyst["tls_certificate"])
        until(lambda: _answers(shuffler, other), "the new certificate of the analyst")
        assert _presented(shuffler).split() == renewed["tls_certificate"].read_text().split()
        world.shuffler["tls_key"].write_text("damaged")
        until(lambda: "the previous ones stay in use" in shuffler.log.read_text(), "a line about it")
        assert _presented(shuffler).split() == renewed["tls_certificate"].read_text().split()
        assert shuffler.process is not None
        shuffler.process.send_signal(signal.SIGHUP)
        until(lambda: shuffler.log.read_text().count("stay in use") >= 1, "an answer to SIGHUP")
        assert shuffler.round() == 1
        shuffler.stop()
