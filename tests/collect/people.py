"""People who send to a running shuffler, and an analyst who pulls from it, whatever happens to it meanwhile."""

import json
import random
import threading
from collections import Counter
from contextlib import suppress
from pathlib import Path

from shoal.collect.batch import BatchFile, Manifest
from shoal.collect.connection import Connection
from shoal.errors import CollectError
from tests.collect.running import PATIENCE, Answer, Line, Running, post


class People:
    """Threads that send one report after the other, and each until it is acknowledged, whatever happens meanwhile.

    Every tenth report is given up at its first failure: nobody knows whether it was stored. A request holds `bulk`
    ciphertexts; for more than one report, the token of a relay is needed.
    """

    def __init__(
        self, shuffler: Running, *, threads: int = 6, pause: float = 0.01, bulk: int = 1, token: str | None = None
    ) -> None:
        self._shuffler, self.pause, self._bulk = shuffler, pause, bulk
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._task = shuffler.world.task
        self._number = 1
        self._over, self._hurry = threading.Event(), threading.Event()
        self.acknowledged: list[bytes] = []
        self.given_up: list[bytes] = []
        self.statuses: Counter[int] = Counter()
        self.refusals: list[Answer] = []
        self._threads = [threading.Thread(target=self._send, daemon=True) for _ in range(threads)]
        for thread in self._threads:
            thread.start()

    def _send(self) -> None:
        made = 0
        line: Line | None = None
        while not self._over.is_set():
            body = b"".join(random.randbytes(self._task.ciphertext_bytes) for _ in range(self._bulk))
            made += 1
            while not self._hurry.is_set():
                if line is None:
                    try:
                        line = self._shuffler.line()
                    except OSError:
                        self._hurry.wait(0.1)
                        continue
                try:
                    answer = line.ask(post(self._task, self._number, body, self._headers))
                except OSError:
                    line = _hung_up(line)
                    self.statuses[0] += 1
                    if made % 10 == 0:
                        self.given_up.append(body)
                        break
                    continue
                self.statuses[answer.status] += 1
                if answer.status == 201:
                    self.acknowledged.append(body)
                    break
                if answer.status == 409:
                    self._number = json.loads(answer.body)["round"]
                    continue
                if answer.status == 404:  # the port has another owner now
                    line = _hung_up(line)
                elif len(self.refusals) < 1000:
                    self.refusals.append(answer)
                self._hurry.wait(0.05)
            else:
                self.given_up.append(body)
            self._hurry.wait(self.pause)
        _hung_up(line)

    def finish(self) -> None:
        """Send no new reports, and wait until those on their way are acknowledged."""
        self._over.set()
        self._join()

    def cease(self) -> None:
        """Stop at once."""
        self._over.set()
        self._hurry.set()
        self._join()

    def reports(self) -> list[bytes]:
        """Return the acknowledged reports one by one."""
        size = self._task.ciphertext_bytes
        return [body[place : place + size] for body in self.acknowledged for place in range(0, len(body), size)]

    def _join(self) -> None:
        for thread in self._threads:
            thread.join(PATIENCE)
            assert not thread.is_alive(), "somebody still waits for an answer"


def _hung_up(line: Line | None) -> Line | None:
    if line is not None:
        line.close()
    return None


class Puller:
    """An analyst who pulls and acknowledges every round, as often as it takes."""

    def __init__(self, shuffler: Running, folder: Path) -> None:
        self._shuffler, self._folder, self._task = shuffler, folder, shuffler.world.task
        folder.mkdir()
        self.pulled: dict[int, BatchFile] = {}
        self.acknowledged: set[int] = set()
        self.deliveries = 0
        self.trouble: list[str] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._pull, daemon=True)
        self._thread.start()

    def _pull(self) -> None:
        while not self._over.is_set():
            with suppress(CollectError, OSError), self._shuffler.analyst(timeout=10) as connection:
                while not self._over.is_set():
                    self._pull_all(connection)
                    self._over.wait(0.05)
            self._over.wait(0.2)

    def _pull_all(self, connection: Connection) -> None:
        root = f"/v1/tasks/{self._task.id}/rounds"
        listed = connection.request("GET", root)
        for one in json.loads(listed.body)["rounds"]:
            number = one["round"]
            if number in self.acknowledged or one["state"] == "sealed" or one["discarded"]:
                continue
            signed = connection.request("GET", f"{root}/{number}/manifest")
            manifest = Manifest.verified(signed.body, self._task, number)
            if one["state"] == "ready":
                path = self._folder / f"{number}.batch"
                with path.open("wb") as file:
                    connection.download(f"{root}/{number}/batch", file, manifest.file_bytes)
                batch = BatchFile.checked(path, self._task, manifest)
                self.deliveries += 1
                if self.pulled.setdefault(number, batch).manifest != manifest:
                    self.trouble.append(f"round {number} was released twice")
            elif number not in self.pulled:
                self.trouble.append(f"round {number} is {one['state']}, and was never pulled")
            answer = connection.request("POST", f"{root}/{number}/ack", manifest.sha256.encode())
            if answer.status >= 500:
                raise CollectError(answer.problem())
            if answer.status != 204:
                self.trouble.append(f"round {number}: {answer.problem()}")
            self.acknowledged.add(number)

    def stop(self) -> None:
        """Pull no more."""
        self._over.set()
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()


def records_of(batch: BatchFile) -> list[bytes]:
    """Return all messages of a batch in their order."""
    return list(batch.records(0, batch.manifest.records))
