"""One line of a ledger: when, what it was called, and its rounds; in words, and as the file has it."""

import json
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any

from shoal.amplification.amplify import amplify
from shoal.amplification.closed_form import FormulaProfile
from shoal.checks import whole
from shoal.composition.central_curve import CENTRAL, CentralCurve
from shoal.composition.composition_method import MOST_TIMES
from shoal.composition.journal import Record
from shoal.curve import PrivacyCurve
from shoal.digits import input_down
from shoal.errors import LedgerDamagedError, ParameterError
from shoal.pairs.randomizer import registration_of
from shoal.pairs.registry import PlainRandomizer, schema_of, stored_mechanism
from shoal.privacy_profile import Profile

Rounds = tuple[tuple[PrivacyCurve, int], ...]
"""Curves, and how many rounds there are of each."""


@dataclass(frozen=True)
class Entry:
    """One line of a ledger: when, what, and the curves with how many times each; several, if it was composed."""

    time: datetime
    label: str
    rounds: Rounds = field(repr=False)

    @property
    def count(self) -> int:
        """How many rounds it stands for."""
        return sum(times for _, times in self.rounds)

    @property
    def description(self) -> str:
        """The rounds in words."""
        parts = (
            f"{times} × ({curve.mechanism}, central)"
            if isinstance(curve, CentralCurve)
            else f"{times} × (n={curve.reports:,}, ε₀={input_down(curve.local_epsilon)}, {curve.bound})"
            for curve, times in self.rounds
        )
        return " + ".join(parts)

    def to_dict(self) -> Record:
        """Return it as the file has it."""
        rounds = [_record_of(curve, times) for curve, times in self.rounds]
        return {"time": self.time.isoformat().replace("+00:00", "Z"), "label": self.label, "rounds": rounds}


def entry_of(record: Any, where: str) -> Entry:
    """Return an entry of the file, or say which field is wrong."""
    path = where
    try:
        if not isinstance(record, dict) or record.keys() != {"time", "label", "rounds"}:
            raise ParameterError("an entry has time, label and rounds, and nothing else")
        time = datetime.fromisoformat(record["time"])
        label = record["label"]
        parts = record["rounds"]
        rounds = []
        # As `record` takes it; half a letter cannot be written.
        line = isinstance(label, str) and label.isprintable()
        if time.utcoffset() != timedelta(0) or not line or not (isinstance(parts, list) and parts):
            raise ParameterError(
                "time must be in UTC, label a line of text, and rounds a list with something in it", "time"
            )
        for position, part in enumerate(parts):
            path = f"{where}.rounds[{position}]"
            rounds.append((_curve_of(part), whole(times=part.get("times"), most=MOST_TIMES)))
    except (TypeError, ValueError) as error:
        raise LedgerDamagedError(f"{path}: {error}; the file was left as it is") from None
    return Entry(time, label, tuple(rounds))


def rounds_of(curve: PrivacyCurve, rounds: Any) -> Rounds:
    """Return the rounds of a curve, as they will be read back; refuse one that does not come back as it was."""
    count = whole(rounds=rounds, most=MOST_TIMES)
    if not isinstance(curve, PrivacyCurve):
        raise ParameterError(f"curve must be a PrivacyCurve, such as amplify() returns, got {curve!r}", "curve")
    if parts := getattr(curve, "parts", ()):
        inner = (one for part, each in parts for one in rounds_of(part, each))
        return tuple((one, whole(rounds=each * count, most=MOST_TIMES)) for one, each in inner)
    try:
        read = _curve_of(_record_of(curve, count))
        why = "" if _same(read.profile, curve.profile) else "another curve comes out"
    except (TypeError, ValueError) as error:
        why = str(error)
    if why:
        advice = "record what amplify() or compose() returned"
        raise ParameterError(f"this curve cannot be recorded: {why}, when it is built from its fields; {advice}")
    return ((read, count),)


def _same(one: Profile, other: Profile) -> bool:
    if not (isinstance(one, FormulaProfile) and isinstance(other, FormulaProfile)):
        return one == other
    # Functions can't be compared, but what they say can.
    probes = [delta for delta in (one.smallest_delta, 1e-9, 1e-6, 1e-3) if one.smallest_delta <= delta < 1]
    return one.smallest_delta == other.smallest_delta and all(one.epsilon(x) == other.epsilon(x) for x in probes)


def _record_of(curve: PrivacyCurve, times: int) -> Record:
    """Return a round as plain values: the arguments of `amplify` that give its curve back, and how many times.

    A central mechanism is not known by arguments, but by its numbers.
    """
    if isinstance(curve, CentralCurve):
        return {"times": times, **curve.to_record()}
    record = {"times": times, "reports": curve.reports, "bound": curve.bound}
    randomizer = getattr(curve, "randomizer", None)
    if randomizer is None:
        return record | {"local_epsilon": curve.local_epsilon, "local_delta": curve.local_delta}
    known = randomizer if registration_of(randomizer) is not None else PlainRandomizer.of(randomizer)
    return record | {"randomizer": schema_of(known)}


def _curve_of(record: Record) -> PrivacyCurve:
    """Return the curve of such a round."""
    return _curve(json.dumps({**record, "times": 1}, sort_keys=True))


@lru_cache(maxsize=4096)
def _curve(text: str) -> PrivacyCurve:
    record = json.loads(text)
    names = record.keys() - {"times"}
    if record.get("bound") == CENTRAL:
        return CentralCurve.from_record({name: record[name] for name in names})
    if names == {"bound", "randomizer", "reports"}:
        return amplify(stored_mechanism(record["randomizer"]), reports=record["reports"], bound=record["bound"])
    if names != {"bound", "local_delta", "local_epsilon", "reports"}:
        raise ParameterError(
            "a round has bound, reports and times, and either randomizer or local_epsilon and local_delta; got "
            f"{', '.join(sorted(record))}"
        )
    del record["times"]
    return amplify(**record)
