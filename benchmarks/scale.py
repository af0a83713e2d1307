"""What 10⁶, 10⁸ and 10⁹ people a day cost: `python -m benchmarks.scale`; `--write` puts it into docs/scale.md.

The rates are measured first. Then a day is simulated, minute by minute: people come, processes serve them, groups are
committed, the round is released and opened. A round is a day, and a report has 64 bytes.
"""

import math
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.collection import Rates, measured

__all__ = ["Day", "arrivals", "commits", "report"]

_PAGE = Path(__file__).parents[1] / "docs" / "scale.md"
_BEGIN, _END = "<!-- begin: python -m benchmarks.scale --write -->", "<!-- end -->"
_MINUTES = 24 * 60
_PEOPLE = (10**6, 10**8, 10**9)
_REPORT = 64

# What is assumed.
_SWING = 0.6
"""The rhythm of a day: a cosine around the mean, highest at 20:00."""
_REMINDED, _REMINDER, _DELAY = 0.05, 19 * 60, 20.0
"""One in twenty reports because of a reminder at 19:00, after 20 minutes on average."""
_BUSY = 0.7
"""How busy a process may be in the busiest minute."""
_PACKETS, _PACKET = 14, 40
"""Packets of one visit, to and fro, and the bytes of their headers."""
_OPEN_HOURS = 1
"""The analyst's cores are as many as open a round within this time."""
_WINDOW = 8
"""Rounds over which repeated reports are recognised."""
_PAGE_BYTES = 4096
"""A report falls on a page of its own, which is written to the log and to the file, once a round outgrows the cache."""
_DATABASE_CORES = 4
_CORE_HOUR, _GB_MONTH, _GB_OUT = 0.04, 0.10, 0.09
"""US dollars."""


def arrivals(people: int, seed: int = 1) -> NDArray[np.int64]:
    """Return how many people come in each minute of a day."""
    minute = np.arange(_MINUTES)
    rhythm = 1 + _SWING * np.cos(2 * np.pi * (minute - 20 * 60) / _MINUTES)
    since = minute - _REMINDER
    reminder = np.where(since >= 0, np.exp(-np.maximum(since, 0) / _DELAY), 0.0)
    share = (1 - _REMINDED) * rhythm / rhythm.sum() + _REMINDED * reminder / reminder.sum()
    return np.asarray(np.random.default_rng(seed).poisson(people * share), np.int64)


@dataclass(frozen=True)
class Day:
    """A day of uploads: the longest queue, the longest wait, and the busiest minute.

    Attributes
    ----------
    queue : people who wait at most.
    wait : seconds of the longest wait.
    busiest : people a second in the busiest minute.
    load : how busy the processes are in it.
    """

    queue: float
    wait: float
    busiest: float
    load: float

    @staticmethod
    def simulated(people: int, rate: float) -> "Day":
        """Return the day of so many people, of whom so many are served in a second."""
        came, capacity = arrivals(people), 60 * rate
        # The queue after a minute is what it was, and those who came, less those who were served, and never below 0.
        free = np.cumsum(came - capacity)
        queue = free - np.minimum(np.minimum.accumulate(free), 0.0)
        longest = float(queue.max())
        busiest = float(came.max()) / 60
        return Day(longest, longest / rate, busiest, busiest / rate)


def commits(rate: float, stored: float, syncs: float, seconds: float = 60.0, seed: int = 1) -> tuple[float, float]:
    """Return how many reports a commit has on average, and the longest wait for one, in seconds.

    Parameters
    ----------
    rate : reports that come in a second, at random.
    stored : reports that can be written in a second.
    syncs : commits that the disk can confirm in a second.
    seconds : for how long.
    """
    generator, clock, span, longest, groups, total = np.random.default_rng(seed), 0.0, 1 / syncs, 0.0, 0, 0
    while clock < seconds:
        waiting = int(generator.poisson(rate * span))  # who came while the group before was written
        if not waiting:  # the writer sleeps until somebody comes
            clock, span, waiting = clock + generator.exponential(1 / rate), 0.0, 1
        writing = 1 / syncs + waiting / stored
        longest = max(longest, span + writing)
        clock, span, groups, total = clock + writing, writing, groups + 1, total + waiting
        if span > seconds:
            return total / groups, math.inf
    return total / groups, longest


def _people_at(rate: float) -> int:
    """Return how many people a day are served at this rate without anybody waiting for 10 seconds: a search."""
    low, high = 1, 10**13
    while high > low * 1.001:
        middle = math.ceil(math.sqrt(low * high))
        if Day.simulated(middle, rate).wait <= 10:
            low = middle
        else:
            high = middle
    return low


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _number(value: float, digits: int = 2) -> str:
    """Return a number with two significant digits, as people write it."""
    if value == 0 or not math.isfinite(value):
        return "0" if value == 0 else "∞"
    rounded = float(f"{value:.{digits}g}")
    return f"{rounded:,.0f}" if rounded >= 10 else f"{rounded:g}"


def _size(count: float) -> str:
    for unit, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6)):
        if count >= size:
            return f"{_number(count / size)} {unit}"
    return f"{_number(count / 1e3)} kB"


def _duration(seconds: float) -> str:
    for unit, size in (("h", 3600), ("min", 60), ("s", 1)):
        if seconds >= size:
            return f"{_number(seconds / size)} {unit}"
    return f"{_number(seconds * 1e3)} ms"


def _power(people: int) -> str:
    exponent = str(len(str(people)) - 1).translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"10{exponent}"


def _rates(rates: Rates) -> str:
    rows = [
        ["people who come once (TLS, round, report), a core", _number(rates.visits, 3)],
        ["uploads on open connections, as from a proxy, a core", _number(rates.uploads, 3)],
        ["TLS handshakes of OpenSSL alone, a core", _number(rates.handshakes, 3)],
        ["SQLite, groups of 20,000, while a round grows to 10⁶", _number(rates.stored_clock, 3)],
        [
            "PostgreSQL, groups of 1,000, one connection",
            "not here" if rates.postgres is None else _number(rates.postgres, 3),
        ],
        ["fdatasync", _number(rates.syncs, 3)],
        ["permuted, written and signed", _number(1e6 / rates.million, 3)],
        ["opened, checked and counted, a core", _number(rates.count, 3)],
    ]
    return _table(["measured", "a second"], rows)


def _costs(rates: Rates) -> str:
    database = rates.postgres or rates.stored_clock
    rows: dict[str, list[str]] = {}

    def put(name: str, value: str) -> None:
        rows.setdefault(name, [name]).append(value)

    for people in _PEOPLE:
        busiest = Day.simulated(people, 1.0).busiest
        processes = max(1, math.ceil(busiest / (_BUSY * rates.visits)))
        day = Day.simulated(people, processes * rates.visits)
        lean = max(1, math.ceil(1.1 * people / 86400 / rates.visits))
        slow = Day.simulated(people, lean * rates.visits)
        groups = 1 if processes == 1 else max(1, math.ceil(busiest / (_BUSY * database)))
        size, wait = commits(busiest / groups, rates.stored_clock if processes == 1 else database, rates.syncs)
        release = people / groups * rates.million / 1e6
        opening = people / rates.count
        cores = math.ceil(opening / (3600 * _OPEN_HOURS))
        databases = 0 if processes == 1 else groups * _DATABASE_CORES
        disk = people * (rates.disk + 2 * _REPORT + _WINDOW * rates.digest)
        sent = people * (rates.sent + _PACKETS / 2 * _PACKET)
        answered = people * (rates.answered + _PACKETS / 2 * _PACKET + _REPORT)
        put("people a second, on average", _number(people / 86400))
        put("in the busiest minute", _number(busiest))
        put("shuffler processes, one core each", _number(processes))
        put("how busy in the busiest minute", f"{100 * day.load:.0f} %")
        put("longest queue, longest wait", f"{_number(day.queue)}, {_duration(day.wait) if day.wait else '0 s'}")
        put("processes for 1.1 times the mean instead", _number(lean))
        put(
            "longest queue, longest wait then", f"{_number(slow.queue)}, {_duration(slow.wait) if slow.wait else '0 s'}"
        )
        put("store", "SQLite" if processes == 1 else f"{groups} × PostgreSQL")
        put("reports a commit, longest wait for it", f"{_number(size)}, {_duration(wait)}")
        put("permute and release, each store by itself", _duration(release))
        put("opening and counting, core-hours", _number(opening / 3600))
        put(f"the analyst's cores, to be done in {_OPEN_HOURS} h", _number(cores))
        put("the analyst's memory for the check for copies", _size(16 * people))
        put("disk: reports, batch twice, digests of 8 rounds", _size(disk))
        put("written by the store a day, a page twice for each", _size(2 * _PAGE_BYTES * people))
        put("bandwidth in, busiest minute", f"{_size(busiest * sent / people * 8).replace('B', 'bit')}/s")
        put("traffic a day, in and out", f"{_size(sent)}, {_size(answered)}")
        paid = (
            ((processes + databases) * 24 + opening / 3600) * _CORE_HOUR,
            disk / 1e9 * _GB_MONTH / 30,
            answered / 1e9 * _GB_OUT,
        )
        put("US$ a day: cores, disk, traffic out", ", ".join(f"{value:,.2f}" for value in paid))
        put("US$ a day, all", f"{sum(paid):,.2f}")
        put("US$ for a million reports", f"{sum(paid) / people * 1e6:.2f}")
    return _table(["people a day", *map(_power, _PEOPLE)], list(rows.values()))


def _limits(rates: Rates) -> str:
    """Return at how many people each part is full, if there is one of it, the first one first."""
    line = 1e9 / 8 / (rates.sent + _PACKETS / 2 * _PACKET)
    found = {
        "one shuffler process that ends TLS itself": _people_at(rates.visits),
        "one core of a proxy that ends TLS, at the least": _people_at(rates.handshakes),
        "one shuffler process behind a proxy": _people_at(rates.uploads),
        "one SQLite, groups of 20,000": _people_at(rates.stored_clock),
        "a line of 1 Gbit/s in": _people_at(line),
        "one process that permutes and releases within 1 h": round(3600 * 1e6 / rates.million),
        "one core that opens and counts within a day": round(86400 * rates.count),
        "16 GB of memory for the check for copies": 10**9,
    }
    if rates.postgres is not None:
        found["one connection to PostgreSQL"] = _people_at(rates.postgres)
    ordered = sorted(found.items(), key=lambda item: item[1])
    return _table(
        ["full first", "people a day"], [[name, f"{_number(people / 1e6)} million"] for name, people in ordered]
    )


def report(rates: Rates) -> str:
    """Return all tables, as docs/scale.md has them."""
    return "\n\n".join([_rates(rates), _costs(rates), _limits(rates)])


if __name__ == "__main__":
    text = report(measured())
    print(text)
    if "--write" in sys.argv[1:]:
        before, _, rest = _PAGE.read_text().partition(_BEGIN)
        _PAGE.write_text(f"{before}{_BEGIN}\n\n{text}\n\n{_END}{rest.partition(_END)[2]}")
