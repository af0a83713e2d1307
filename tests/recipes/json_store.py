"""A store in one JSON file that is written anew for each group of reports: small, slow, and right."""

import json
import secrets
import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import takewhile
from pathlib import Path
from typing import Any

from shoal.collect.round_state import KEPT_ROUNDS, Record, Round, State
from shoal.collect.store import Store
from shoal.collect.task import Task
from shoal.durable_file import locked, whole_file
from shoal.errors import DamagedError, ParameterError


class JsonStore(Store, schemes=["json"]):
    """All rounds of one task, with what is known of each: its fields, tags, and ciphertexts by their digests."""

    repair = "put a copy back"

    def __init__(self, path: Path, task: Task, *, now: float) -> None:
        super().__init__(task)
        self._path, self._lock = path, path.with_name(f"{path.name}.lock")
        with self._using(self._transaction()) as rounds:
            if not rounds:
                self._begin(rounds, 1, now + task.round_seconds)

    @classmethod
    def opened(cls, url: str, task: Task, *, folder: Path, new: bool) -> "JsonStore":
        path = folder / url.removeprefix("json:")
        if not new and not path.exists():
            raise ParameterError(f"there are no rounds in {path}; `shoal shuffler serve` begins them")
        folder.mkdir(parents=True, exist_ok=True)
        return cls(path, task, now=time.time())

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except json.JSONDecodeError as error:
            raise DamagedError(f"{self._path} is damaged ({error})") from error

    @contextmanager
    def _transaction(self) -> Iterator[dict[int, dict[str, Any]]]:
        with locked(self._lock), self._view() as rounds:
            yield rounds
            with whole_file(self._path, mode=0o600) as file:
                file.write(json.dumps(rounds).encode())

    @contextmanager
    def _view(self) -> Iterator[dict[int, dict[str, Any]]]:
        content = json.loads(self._path.read_bytes()) if self._path.exists() else {}
        yield {int(number): one for number, one in content.items()}

    def _state(self, database: Any, number: int, *, alone: bool = False) -> State | None:
        return State(database[number]["state"]) if number in database else None

    def _rounds(self, database: Any, *, last: bool, also: int = 0) -> list[Round]:
        newest = max(database)
        return [
            Round(
                number,
                State(one["state"]),
                one["closes"],
                one["reports"],
                None if one["manifest"] is None else bytes.fromhex(one["manifest"]),
                one["discarded"],
                None if one["token_key"] is None else bytes.fromhex(one["token_key"]),
                seal=bytes.fromhex(one["seal"]) or None,
            )
            for number, one in sorted(database.items())
            if number == newest
            or (not last and (one["state"] != "purged" or number > newest - KEPT_ROUNDS or number == also))
        ]

    def _begin(self, database: Any, number: int, closes: float) -> None:
        key = secrets.token_bytes(32).hex()
        database[number] = {"state": "open", "closes": closes, "reports": None, "manifest": None, "discarded": False}
        database[number] |= {"token_key": key, "seal": "", "tags": [], "bodies": {}, "digests": []}

    def _change(self, database: Any, number: int, **fields: Any) -> None:
        database[number] |= {name: x.hex() if isinstance(x, bytes) else x for name, x in fields.items()}

    def _insert(self, database: Any, number: int, records: Sequence[Record]) -> None:
        one, seen = database[number], self._seen(database, number)
        for digest, body, tag in records:
            if tag is not None and tag.hex() in one["tags"]:
                continue
            one["tags"] += [] if tag is None else [tag.hex()]
            if digest.hex() not in seen:
                one["bodies"][digest.hex()] = body.hex()
                seen.add(digest.hex())
        one["bodies"] = dict(sorted(one["bodies"].items()))  # in no order of arrival

    def _seen(self, database: Any, number: int) -> set[str]:
        window = [one for one in database if number - self.task.replay_rounds <= one <= number]
        return {digest for one in window for digest in (*database[one]["bodies"], *database[one]["digests"])}

    def _leading(self, database: Any, number: int, digests: Iterable[bytes]) -> int:
        seen = self._seen(database, number)
        return sum(1 for _ in takewhile(lambda digest: digest.hex() in seen, digests))

    def _counted(self, database: Any, number: int) -> int:
        return len(database[number]["bodies"])

    def _seal(self, database: Any, number: int, reports: int | None) -> None:
        database[number] |= {"tags": [], "token_key": None}

    def _erase(self, database: Any, number: int, low: bytes, high: bytes) -> None:
        one = database[number]
        some = [digest for digest in one["bodies"] if low <= bytes.fromhex(digest) < high]
        one["digests"] += some
        for digest in some:
            del one["bodies"][digest]

    def _forget(self, database: Any, number: int, before: int) -> None:
        for other, one in database.items():
            if other < before and one["state"] == "purged":
                one["digests"] = []

    def bodies(self, number: int) -> Generator[bytes]:
        with self._using(self._view(), damaged=True) as rounds:
            yield bytes.fromhex("".join(rounds[number]["bodies"].values()))

    def shut(self) -> None:
        pass
