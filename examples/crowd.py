"""A crowd for the demonstration: many people who each report once, over a few connections that they share."""

import json
import sys
import threading
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from shoal.collect import Connection, Task
from shoal.collect.envelope import plaintexts, seal
from shoal.errors import CollectError

__all__ = ["SHARES", "answers", "crowd", "main"]

SHARES = (0.34, 0.22, 0.15, 0.11, 0.08, 0.05, 0.03, 0.02)
"""How many give each answer."""
_CONNECTIONS = 8
_OFTEN = 100
_TRIES = 5


def answers(people: int) -> list[int]:
    """Return what each of them would say if nobody listened, in no order that says anything; always the same."""
    bounds = (np.cumsum(SHARES) * people).round().astype(np.int64)
    said = np.repeat(np.arange(len(SHARES)), np.diff(bounds, prepend=0))
    return [int(answer) for answer in np.random.default_rng(1).permutation(said)]


def crowd(task: Task, url: str, ca: Path | None, said: Sequence[int]) -> Counter[int]:
    """Have everybody randomize, seal and send their one report, and return how many went into each round.

    Real people have a `Sender`, which asks for the open round each time; these ask once for each connection, and
    again when the round has closed. How far they are is printed now and then, as a line of JSON.

    Parameters
    ----------
    task : Task
        What they are asked.
    url : str
        Where the shuffler is.
    ca : Path or None
        Its certificate.
    said : sequence of int
        The number of the category of each of them.
    """
    waiting = iter(said)
    lock = threading.Lock()
    rounds: Counter[int] = Counter()
    trouble: list[BaseException] = []

    def run() -> None:
        try:
            with Connection(url, ca) as connection:
                number = _open_round(task, connection)
                while not trouble:
                    with lock:
                        category = next(waiting, None)
                    if category is None:
                        return
                    number = _sent(task, connection, number, category)
                    with lock:
                        rounds[number] += 1
                        if rounds.total() % _OFTEN == 0:
                            print(json.dumps({"sent": rounds.total()}), flush=True)
        except BaseException as error:
            trouble.append(error)

    threads = [threading.Thread(target=run) for _ in range(min(_CONNECTIONS, len(said)))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if trouble:
        raise trouble[0]
    return rounds


def _open_round(task: Task, connection: Connection) -> int:
    answer = connection.request("GET", f"/v1/tasks/{task.id}/round")
    number = answer.member("round")
    if not isinstance(number, int):
        raise CollectError(f"{connection.url} does not say which round is open: {answer.problem()}")
    return number


def _sent(task: Task, connection: Connection, number: int, category: int) -> int:
    """Send one person's report, randomized once, and return the round that took it."""
    (plaintext,) = plaintexts(task, task.mechanism.randomize([category]))
    for _ in range(_TRIES):
        path = f"/v1/tasks/{task.id}/rounds/{number}/reports"
        answer = connection.request("POST", path, seal(task, number, plaintext))
        if answer.status == 201:
            return number
        if answer.status != 409:
            break
        number = _open_round(task, connection)
    raise CollectError(f"{connection.url} does not take a report: {answer.problem()}")


def main() -> None:
    """Take a task file, the shuffler's address, its certificate and a number of people, and have them report."""
    task, url, ca, people = sys.argv[1:]
    rounds = crowd(Task.read(Path(task)), url, Path(ca), answers(int(people)))
    print(json.dumps({"sent": rounds.total(), "rounds": {str(number): rounds[number] for number in sorted(rounds)}}))
