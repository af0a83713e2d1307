"""A PostgreSQL of our own: made in a temporary folder, on a loopback port and a socket, and gone afterwards."""

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

_PATIENCE = 60


@cache
def programs() -> Path | None:
    """Return the folder that has initdb and postgres, or None if there is none."""
    packaged = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name.split(".")[0]))
    named = shutil.which("initdb")
    for folder in (*([] if named is None else [Path(os.path.realpath(named)).parent]), *reversed(packaged)):
        if all(os.access(folder / name, os.X_OK) for name in ("initdb", "postgres")):
            return folder
    return None


class Cluster:
    """A server that can be stopped, killed and started again; a standby of `source`, if there is one.

    The folder must be short enough for the path of a socket, and is owned by `user`, since PostgreSQL does not run as
    root.
    """

    def __init__(self, folder: Path, user: str, source: "Cluster | None" = None) -> None:
        self._folder, self.user = folder, user
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]
        self.url = f"postgresql://{user}@127.0.0.1:{self.port}/postgres"
        """By TCP on the loopback address."""
        self.socket_url = f"postgresql://{user}@/postgres?host={folder}&port={self.port}"
        """By the socket in the folder."""
        self._process: subprocess.Popen[bytes] | None = None
        command = ["initdb", "--no-sync", "--auth=trust", "--encoding=UTF8", "--no-locale", f"--username={user}"]
        if source is not None:
            command = ["pg_basebackup", "--no-sync", "--checkpoint=fast", "--write-recovery-conf", "-d", source.url]
        subprocess.run(self._as_user([*command, "-D", str(folder / "data")]), check=True, capture_output=True)

    def _as_user(self, command: list[str]) -> list[str]:
        """Return a command of PostgreSQL, run by the user."""
        found = programs()
        assert found is not None
        command = [str(found / command[0]), *command[1:]]
        if os.geteuid() == 0:
            group = str(pwd.getpwnam(self.user).pw_gid)
            return ["setpriv", f"--reuid={self.user}", f"--regid={group}", "--clear-groups", "--", *command]
        return command

    def command(self, program: str, *arguments: str) -> list[str]:
        """Return a command of PostgreSQL for this server, such as psql."""
        return self._as_user([program, "-d", self.url, *arguments])

    def start(self, **changes: str) -> None:
        """Start the server, with settings that shall be others, and wait until it answers."""
        import psycopg

        settings = {
            "listen_addresses": "127.0.0.1",
            "port": str(self.port),
            "unix_socket_directories": str(self._folder),
            "fsync": "on",
            "shared_buffers": "64MB",
            "autovacuum": "off",  # it would read, at any time, a table that a test has damaged
        } | changes
        command = ["postgres", "-D", str(self._folder / "data")]
        for name, value in settings.items():
            command += ["-c", f"{name}={value}"]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(self._as_user(command), stdout=log, stderr=log)
        end = time.monotonic() + _PATIENCE
        while True:
            try:
                psycopg.connect(self.url, connect_timeout=5).close()
                return
            except psycopg.OperationalError:
                if self._process.poll() is not None or time.monotonic() > end:
                    raise AssertionError(f"PostgreSQL does not start: {self.log()[-2000:]}") from None
                time.sleep(0.05)

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stop the server and wait for its end: SIGINT sends everybody away, SIGQUIT is as if it had crashed."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(_PATIENCE)
            self._process = None

    @contextmanager
    def standby(self) -> Iterator["Cluster"]:
        """Lend a server that follows this one, asynchronously unless this one waits for it."""
        folder = Path(tempfile.mkdtemp(prefix="pg-", dir="/tmp"))
        try:
            if os.geteuid() == 0:
                shutil.chown(folder, self.user)
            made = Cluster(folder, self.user, self)
            try:
                made.start()
                made.wait_for(self)
                yield made
            finally:
                made.stop(signal.SIGQUIT)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def wait_for(self, primary: "Cluster") -> None:
        """Wait until this standby has all that its primary has committed."""
        import psycopg

        with psycopg.connect(primary.url) as source, psycopg.connect(self.url) as copy:
            ((there,),) = source.execute("SELECT pg_current_wal_lsn()::text").fetchall()
            end = time.monotonic() + _PATIENCE
            while copy.execute("SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn", (there,)).fetchone() != (True,):
                assert time.monotonic() < end, self.log()[-2000:]
                time.sleep(0.02)

    def cut_off(self) -> None:
        """Have this standby lose its connection to the primary, for good."""
        self._run("ALTER SYSTEM SET primary_conninfo = ''", "SELECT pg_reload_conf()")
        end = time.monotonic() + _PATIENCE
        while self._run("SELECT FROM pg_stat_wal_receiver") is not None:
            assert time.monotonic() < end, self.log()[-2000:]
            time.sleep(0.02)

    def promote(self) -> None:
        """Make this standby a primary."""
        assert self._run("SELECT pg_promote()") == (True,)

    def _run(self, *statements: str) -> tuple[object, ...] | None:
        """Run statements, and return the first row of the last one."""
        import psycopg

        with psycopg.connect(self.url, autocommit=True) as connection:
            rows = [connection.execute(each.encode()) for each in statements]
            return rows[-1].fetchone()

    def log(self) -> str:
        """Return what the server has said."""
        return (self._folder / "log").read_text(errors="replace")


@contextmanager
def running_cluster() -> Iterator[Cluster]:
    """Lend a server, which is removed afterwards."""
    names = {entry.pw_name for entry in pwd.getpwall()}
    unprivileged = "postgres" if "postgres" in names else "nobody"
    user = unprivileged if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name
    folder = Path(tempfile.mkdtemp(prefix="pg-", dir="/tmp"))
    try:
        if os.geteuid() == 0:
            shutil.chown(folder, user)
        cluster = Cluster(folder, user)
        try:
            cluster.start()
            yield cluster
        finally:
            cluster.stop(signal.SIGQUIT)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
