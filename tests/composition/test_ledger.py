"""The ledger: nothing is lost, whatever crashes or races, and nothing is spent beyond the budget."""

import errno
import io
import json
import math
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import FrozenInstanceError, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NoReturn

import pytest

import shoal
from shoal import durable_file
from shoal.amplification.amplify import amplify
from shoal.composition.budget import filter_order
from shoal.composition.compose import compose
from shoal.composition.ledger import Ledger
from shoal.composition.renyi_accountant import converted
from shoal.curve import PrivacyCurve
from shoal.errors import BudgetError, LedgerError, NoPairError, ParameterError, UnreachableError
from tests.disk import on_disk

DELTA = 1e-6
CURVE = shoal.amplify(local_epsilon=1, reports=10_000)
OTHER = shoal.amplify(local_epsilon=0.3, reports=1_000)


def labels(path: Path) -> list[str]:
    """Return the labels in a file, by means of nothing but JSON."""
    content = json.loads(path.read_text())
    assert content["format"] == "shoal-ledger"
    return [entry["label"] for entry in content["entries"]]


def run(script: str, *arguments: object) -> "subprocess.Popen[str]":
    """Start a script that finds a curve, a ledger and its arguments ready."""
    head = """
import errno, json, os, random, resource, signal, sys, time
import shoal
from shoal.composition.ledger import Ledger
from shoal.errors import BudgetError, LedgerError
curve = shoal.amplify(local_epsilon=1, reports=10_000)
path, *arguments = sys.argv[1:]
ledger = Ledger(path)
"""
    command = [sys.executable, "-c", head + script, *map(str, arguments)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def finished(*processes: "subprocess.Popen[str]") -> list[str]:
    said = [process.communicate(timeout=60)[0] for process in processes]
    assert [process.returncode for process in processes] == [0] * len(processes)
    return said


# What it says


def test_an_empty_ledger_has_spent_nothing() -> None:
    ledger = Ledger()
    assert (len(ledger), ledger.entries, ledger.spent(DELTA), ledger.spent(0)) == (0, (), 0.0, 0.0)
    assert ledger.remaining(epsilon=0.1, delta=DELTA) == 0.1


@pytest.mark.slow
def test_what_is_spent_is_everything_composed() -> None:
    ledger = Ledger()
    ledger.record(CURVE)
    ledger.record(OTHER, rounds=3)
    ledger.record(CURVE, label="again")
    together = compose([(CURVE, 2), (OTHER, 3)]).epsilon(DELTA)
    assert ledger.spent(DELTA) == together
    assert 0 < together - ledger.remaining(epsilon=2 * together, delta=DELTA) <= 1e-12
    assert ledger.remaining(epsilon=together / 2, delta=DELTA) == 0
    assert [entry.count for entry in ledger] == [1, 3, 1]


@pytest.mark.slow
def test_equal_rounds_are_put_together_before_composing(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[Any]] = []

    def spy(curves: Any, **options: Any) -> PrivacyCurve:
        asked.append(list(curves))
        return compose(asked[-1], **options)

    monkeypatch.setattr("shoal.composition.budget.compose", spy)
    ledger = Ledger()
    form = shoal.amplify(local_epsilon=0.1, reports=10**6, bound="clones-closed-form")
    for _ in range(100):
        ledger.record(shoal.amplify(local_epsilon=1, reports=10_000))
        ledger.record(form)
    ledger.spent(1e-3)
    assert asked
    assert all([times for _, times in curves] == [100, 100] for curves in asked)


def test_formulas_without_losses_are_composed_too() -> None:
    form = shoal.amplify(local_epsilon=0.1, reports=10**6, bound="clones-closed-form")
    ledger = Ledger()
    ledger.record(form, rounds=2)
    ledger.record(CURVE)
    assert CURVE.epsilon(1e-3) < ledger.spent(1e-3) == compose([(form, 2), CURVE], method="advanced").epsilon(1e-3)


def test_a_composed_curve_is_recorded_as_its_rounds(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.json")
    ledger.record(compose([(CURVE, 2), OTHER]), label="week", rounds=3)
    (entry,) = Ledger(tmp_path / "ledger.json")
    assert (entry.label, entry.count) == ("week", 9)
    assert [(curve.reports, times) for curve, times in entry.rounds] == [(10_000, 6), (1_000, 3)]
    assert ledger.spent(DELTA) == compose([(CURVE, 6), (OTHER, 3)]).epsilon(DELTA)


def test_it_shows_itself(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.json")
    ledger.record(CURVE, label="<monday> – früh")
    assert repr(ledger).startswith(f"Ledger({str(tmp_path / 'ledger.json')!r}, entries=1, ε=0.0")
    assert "&lt;monday&gt; – früh" in ledger._repr_html_()
    assert "1 × (n=10,000, ε₀=1, swap-chains)" in ledger._repr_html_()
    assert ledger.to_dict() == json.loads((tmp_path / "ledger.json").read_text())
    assert abs(ledger.entries[0].time - datetime.now(UTC)) < timedelta(minutes=1)
    with pytest.raises(FrozenInstanceError):
        ledger.entries[0].label = "tuesday"  # type: ignore[misc]


# The budget


def rounds_that_fit(epsilon: float) -> int:
    """Count by composing anew, without a ledger."""
    count = 0
    while compose([(CURVE, count + 1)]).epsilon(DELTA) <= epsilon:
        count += 1
    return count


@pytest.mark.slow
def test_a_budget_for_rounds_chosen_as_you_go_is_kept_at_one_order() -> None:
    epsilon = 0.2
    order = filter_order(epsilon, DELTA)
    divergence = CURVE.renyi(order)
    fit = max(t for t in range(1, 100) if converted(t * divergence, order, DELTA) <= epsilon)
    ledger = Ledger()
    with ledger.budget(CURVE, epsilon=epsilon, delta=DELTA, rounds=fit):
        pass
    assert 1 < fit <= rounds_that_fit(epsilon)
    assert not ledger.affords(CURVE, epsilon=epsilon, delta=DELTA)
    planned = Ledger()
    planned.record(CURVE, rounds=fit)
    assert planned.affords(CURVE, epsilon=epsilon, delta=DELTA, planned=True)
    # A single round may always cost its own ε₀, and pure rounds their sum.
    assert Ledger().affords(amplify(local_epsilon=0.1, reports=1), epsilon=0.2, delta=DELTA, rounds=2)
    assert not Ledger().affords(amplify(local_epsilon=0.1, reports=1), epsilon=0.2, delta=DELTA, rounds=3)


def test_a_round_without_renyi_divergence_needs_a_plan() -> None:
    rough = amplify(local_epsilon=1, reports=10_000, bound="clones-closed-form")
    with pytest.raises(NoPairError, match="planned=True"):
        Ledger().affords(rough, epsilon=0.5, delta=DELTA)
    assert Ledger().affords(rough, epsilon=0.5, delta=DELTA, planned=True)
    assert Ledger().affords(rough, epsilon=1.0, delta=DELTA)  # ε₀ itself is within the budget


@pytest.mark.slow
def test_the_budget_refuses_exactly_the_round_that_would_break_it(tmp_path: Path) -> None:
    path = tmp_path / "ledger.json"
    ledger, ran, epsilon = Ledger(path), 0, 0.2
    with pytest.raises(BudgetError) as refusal:
        for day in range(1000):
            affordable = ledger.affords(CURVE, epsilon=epsilon, delta=DELTA, planned=True)
            before = path.read_bytes() if ran else b""
            with ledger.budget(CURVE, epsilon=epsilon, delta=DELTA, planned=True, label=str(day)) as entry:
                assert affordable
                assert entry.label == str(day)
                ran += 1
    assert ran == rounds_that_fit(epsilon) > 1
    assert not affordable
    assert path.read_bytes() == before
    assert labels(path) == [str(day) for day in range(ran)]
    for part in ("over the budget of 0.2", "still fit: 0", "Nothing was recorded", "reports", "local_epsilon"):
        assert part in str(refusal.value)
    ledger.record(CURVE, label="it happened all the same")
    assert ledger.spent(DELTA) > epsilon


def test_a_budget_that_is_met_exactly_is_met() -> None:
    exact = compose([(CURVE, 3)]).epsilon(DELTA)
    assert Ledger().affords(CURVE, rounds=3, epsilon=exact, delta=DELTA, planned=True)
    assert not Ledger().affords(CURVE, rounds=3, epsilon=math.nextafter(exact, 0), delta=DELTA, planned=True)


@pytest.mark.slow
def test_several_rounds_are_charged_together_or_not_at_all() -> None:
    ledger, fit = Ledger(), rounds_that_fit(0.2)
    with (
        pytest.raises(BudgetError, match=f"still fit: {fit}"),
        ledger.budget(CURVE, epsilon=0.2, delta=DELTA, planned=True, rounds=fit + 5),
    ):
        pytest.fail("the body ran")
    assert len(ledger) == 0
    with ledger.budget(CURVE, epsilon=0.2, delta=DELTA, planned=True, rounds=fit):
        pass
    assert not ledger.affords(CURVE, epsilon=0.2, delta=DELTA, planned=True)


def test_a_round_is_charged_before_it_runs_and_stays_charged_if_it_fails(tmp_path: Path) -> None:
    path = tmp_path / "ledger.json"
    with pytest.raises(ZeroDivisionError), Ledger(path).budget(CURVE, epsilon=1, delta=DELTA, label="failed"):
        assert labels(path) == ["failed"]
        raise ZeroDivisionError
    assert labels(path) == ["failed"]


@pytest.mark.slow
def test_nested_budgets_see_each_other(tmp_path: Path) -> None:
    epsilon = compose([(CURVE, 2)]).epsilon(DELTA)
    ledger = Ledger(tmp_path / "ledger.json")
    again = Ledger(tmp_path / "ledger.json")
    with (
        ledger.budget(CURVE, epsilon=epsilon, delta=DELTA, planned=True),
        again.budget(CURVE, epsilon=epsilon, delta=DELTA, planned=True),
        pytest.raises(BudgetError),
        ledger.budget(CURVE, epsilon=epsilon, delta=DELTA, planned=True),
    ):
        pytest.fail("the third round ran")
    assert len(ledger) == len(again) == 2


def test_where_no_epsilon_holds_nothing_is_affordable() -> None:
    ledger = Ledger()
    rough = shoal.amplify(local_epsilon=1, local_delta=1e-3, reports=1_000)
    assert not ledger.affords(rough, epsilon=100, delta=DELTA, planned=True)
    with pytest.raises(BudgetError), ledger.budget(rough, epsilon=100, delta=DELTA, planned=True):
        pytest.fail("the body ran")
    ledger.record(rough)
    with pytest.raises(UnreachableError):
        ledger.spent(DELTA)
    assert "inf" in repr(ledger)


@pytest.mark.parametrize("times", [0, -1, 1.5, math.nan, math.inf, "two", True, None])
def test_times_must_be_a_sensible_whole_number(times: Any) -> None:
    ledger = Ledger()
    with pytest.raises(ParameterError, match="rounds must be"):
        ledger.record(CURVE, rounds=times)
    with pytest.raises(ParameterError, match="rounds must be"):
        ledger.affords(CURVE, rounds=times, epsilon=1, delta=DELTA)
    with (
        pytest.raises(ParameterError, match="rounds must be"),
        ledger.budget(CURVE, rounds=times, epsilon=1, delta=DELTA),
    ):
        pytest.fail("the body ran")
    assert len(ledger) == 0


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(math.nan, DELTA), (-1, DELTA), (math.inf, DELTA), (1, 1), (1, math.nan)]
)
def test_epsilon_and_delta_must_be_sensible(epsilon: float, delta: float) -> None:
    ledger = Ledger()
    with pytest.raises(ParameterError, match="must be"):
        ledger.remaining(epsilon=epsilon, delta=delta)
    with pytest.raises(ParameterError, match="must be"):
        ledger.affords(CURVE, epsilon=epsilon, delta=delta)
    with pytest.raises(ParameterError, match="must be"), ledger.budget(CURVE, epsilon=epsilon, delta=delta):
        pytest.fail("the body ran")


@pytest.mark.parametrize("label", [None, 5, "two\nlines", "\ud800"])
def test_a_label_is_a_line_of_text(label: Any) -> None:
    with pytest.raises(ParameterError, match="label must be"):
        Ledger().record(CURVE, label=label)


class Wishful:
    """A profile that promises everything."""

    def epsilon(self, delta: float) -> float:
        return 0.0

    delta = epsilon

    def bracket(self, delta: float) -> tuple[float, float]:
        return 0.0, 0.0

    def provable(self) -> None:
        return None

    def renyi(self, orders: Any) -> Any:
        return 0 * orders


def test_a_curve_that_cannot_be_rebuilt_is_refused() -> None:
    form = shoal.amplify(local_epsilon=1, reports=10_000, bound="clones-closed-form")
    impostors: list[Any] = [
        replace(CURVE, profile=Wishful()),
        replace(CURVE, profile=OTHER.profile),
        replace(CURVE, bound="folklore"),
        replace(CURVE, reports=20_000),
        replace(form, local_epsilon=0.9),
        replace(form, profile=replace(form.profile, formula=lambda delta: 0.0)),  # type: ignore[type-var]
    ]
    for impostor in impostors:
        with pytest.raises(ParameterError, match="cannot be recorded"):
            Ledger().record(impostor)
    with pytest.raises(ParameterError, match="curve must be"):
        Ledger().record(0.5)  # type: ignore[arg-type]


# The file


@pytest.mark.slow
@pytest.mark.parametrize(
    "curve",
    [
        shoal.amplify(local_epsilon=0.1 + 0.2, reports=12_345),
        shoal.amplify(local_epsilon=math.pi, local_delta=1e-9 / 3, reports=10**6, bound="clones"),
        shoal.amplify(local_epsilon=5e-324, reports=1),
        shoal.amplify(local_epsilon=0, reports=10**15),
        shoal.amplify(local_epsilon=1 / 3, reports=10**6, bound="clones-sharp-form"),
        shoal.amplify(shoal.RandomizedResponse(categories=10, local_epsilon=2 / 3), reports=1000),
        shoal.amplify(shoal.RandomizedResponse(categories=4, local_epsilon=0.7), reports=1000, bound="strong-clones"),
        shoal.amplify(
            shoal.Decomposition(blanket_probability=0.1, own_probability=1 / 3, local_epsilon=2 / 7), reports=1000
        ),
    ],
)
def test_what_is_written_reads_back_exactly(curve: PrivacyCurve, tmp_path: Path) -> None:
    path = tmp_path / "ledger.json"
    written = Ledger(path).record(curve, label="λ", rounds=7)
    (entry,) = Ledger(path)
    ((back, times),) = entry.rounds
    assert (entry.time, entry.label, times) == (written.time, "λ", 7)
    for name in ("reports", "local_epsilon", "local_delta", "bound", "theorem", "randomizer"):
        assert getattr(back, name, None) == getattr(curve, name, None), name
    assert back.epsilon(1e-3) == curve.epsilon(1e-3)
    (stored,) = json.loads(path.read_text())["entries"][0]["rounds"]
    known = stored if curve.randomizer is None else stored["randomizer"]
    assert known.get("local_epsilon", math.inf) == curve.local_epsilon


def test_all_see_what_one_has_written(tmp_path: Path) -> None:
    one, two = Ledger(tmp_path / "ledger.json"), Ledger(str(tmp_path / "ledger.json"))
    one.record(CURVE, label="1")
    two.record(CURVE, label="2")
    one.record(CURVE, label="3")
    assert [entry.label for entry in two] == ["1", "2", "3"]


def test_a_symbolic_link_is_written_through(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    link, target = tmp_path / "link.json", tmp_path / "real" / "ledger.json"
    link.symlink_to(target)
    Ledger(link).record(CURVE, label="through")
    assert link.is_symlink()
    assert labels(target) == ["through"]
    assert sorted(file.name for file in tmp_path.rglob("*.lock")) == ["ledger.json.lock"]


def test_permissions_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "ledger.json"
    ledger = Ledger(path)
    ledger.record(CURVE)
    path.chmod(0o640)
    ledger.record(CURVE)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


ROUND = {"times": 1, "reports": 10, "local_epsilon": 1.0, "local_delta": 0.0, "bound": "clones"}
RESPONSE = {"mechanism": "randomized-response", "version": 1, "categories": 3, "local_epsilon": 1.0}
ENTRY = {"time": "2025-01-31T12:00:00Z", "label": "", "rounds": [ROUND]}
GOOD: dict[str, Any] = {"format": "shoal-ledger", "version": 1, "budget": None, "entries": [ENTRY]}


def bad_randomizer(randomizer: Any) -> str:
    round_ = {"times": 1, "reports": 10, "bound": "clones", "randomizer": randomizer}
    return json.dumps({**GOOD, "entries": [ENTRY, {**ENTRY, "rounds": [ROUND, round_]}]})


def bad_round(**changes: Any) -> str:
    return json.dumps({**GOOD, "entries": [ENTRY, {**ENTRY, "rounds": [ROUND, {**ROUND, **changes}]}]})


def bad_entry(**changes: Any) -> str:
    return json.dumps({**GOOD, "entries": [ENTRY, {**ENTRY, **changes}]})


DAMAGED = {
    "": "empty",
    "[" * 100_000: "not a ledger",
    json.dumps(GOOD)[:-30]: "line 1 column",
    json.dumps(GOOD, indent=1)[:-30]: "line 1",
    "[]": '"format" must be',
    '{"format": "shoal-certificate-1"}': '"format" must be',
    json.dumps({**GOOD, "version": 2}): "newer shoal",
    json.dumps({**GOOD, "version": "1"}): '"version" must be 1',
    json.dumps({**GOOD, "version": True}): '"version" must be 1',
    json.dumps({**GOOD, "owner": "me"}): "nothing else",
    json.dumps({name: value for name, value in GOOD.items() if name != "budget"}): '"budget"',
    json.dumps({**GOOD, "budget": 0.5}): "budget: a budget has epsilon, delta and planned",
    json.dumps({**GOOD, "budget": {"epsilon": 0.5, "delta": 1e-6}}): "budget: a budget has",
    json.dumps({**GOOD, "budget": {"epsilon": -1, "delta": 1e-6, "planned": False}}): "budget: epsilon must be",
    json.dumps({**GOOD, "budget": {"epsilon": 1, "delta": math.nan, "planned": False}}): "NaN is no number",
    json.dumps({**GOOD, "budget": {"epsilon": 1, "delta": 1e-6, "planned": 1}}): "budget: planned must be",
    json.dumps({**GOOD, "budget": {"epsilon": 1, "delta": 0, "planned": False}}): "budget: planned must be",
    json.dumps({**GOOD, "entries": {}}): "list",
    json.dumps({**GOOD, "entries": [5]}): r"entries\[0\]: an entry has time",
    bad_entry(time="yesterday"): r"entries\[1\]: .*isoformat",
    bad_entry(time=5): r"entries\[1\]: .*isoformat",
    bad_entry(time="2025-01-31T12:00:00"): r"entries\[1\]: time must be in UTC",
    bad_entry(time="2025-01-31T12:00:00+01:00"): r"entries\[1\]: time must be in UTC",
    bad_entry(label=None): r"entries\[1\]: .*label a line of text",
    bad_entry(label="two\nlines"): r"entries\[1\]: .*label a line of text",
    bad_entry(label="\ud800"): r"entries\[1\]: .*label a line of text",
    bad_entry(rounds=[]): r"entries\[1\]: .*rounds",
    bad_entry(rounds="x"): r"entries\[1\]: .*rounds",
    bad_entry(rounds=["x"]): r"entries\[1\]\.rounds\[0\]",
    bad_entry(more=1): r"entries\[1\]: an entry has",
    bad_round(times=-1): r"entries\[1\]\.rounds\[1\]: times must be at least 1",
    bad_round(times=math.nan): "NaN is no number",
    bad_round(reports=0): r"entries\[1\]\.rounds\[1\]: reports must be",
    bad_round(local_epsilon=math.nan): "NaN is no number",
    bad_round(local_epsilon=math.inf): "Infinity is no number",
    bad_round(local_delta=2): r"entries\[1\]\.rounds\[1\]: local_delta must be",
    bad_round(bound="folklore"): r"entries\[1\]\.rounds\[1\]: bound must be one of",
    bad_round(more=1): r"entries\[1\]\.rounds\[1\]: a round has",
    bad_round(randomizer=RESPONSE): r"entries\[1\]\.rounds\[1\]: a round has",
    bad_randomizer("rr"): r"entries\[1\]\.rounds\[1\]: a schema names a mechanism",
    bad_randomizer({**RESPONSE, "mechanism": "system"}): r"entries\[1\]\.rounds\[1\]: mechanism must be one of",
    bad_randomizer({"categories": 3}): r"entries\[1\]\.rounds\[1\]: mechanism must be one of",
    bad_randomizer({**RESPONSE, "version": 2}): r"entries\[1\]\.rounds\[1\]: .*version 1 of its schema.*got 2",
    bad_randomizer({**RESPONSE, "version": True}): r"entries\[1\]\.rounds\[1\]: .*version 1 of its schema.*got True",
    bad_randomizer(
        {"mechanism": "randomized-response", "version": 1}
    ): r"rounds\[1\]: .*categories, local_epsilon, got",
    bad_randomizer({**RESPONSE, "categories": 1}): r"rounds\[1\]: categories must be",
    bad_randomizer({**RESPONSE, "local_epsilon": 60.0}): r"rounds\[1\]: .*was changed: it comes back as",
    bad_randomizer({**RESPONSE, "mechanism": "hadamard-response"}): r"rounds\[1\]: .*incomplete or was changed",
    json.dumps({**GOOD, "entries": [{**ENTRY, "rounds": [{"times": 1}]}]}): r"entries\[0\]\.rounds\[0\]: a round has",
}


@pytest.mark.parametrize(("text", "complaint"), DAMAGED.items(), ids=range(len(DAMAGED)))
def test_a_damaged_file_is_told_and_never_overwritten(text: str, complaint: str, tmp_path: Path) -> None:
    path = tmp_path / "ledger.json"
    path.write_text(json.dumps({**GOOD, "entries": []}))
    ledger = Ledger(path)
    path.write_text(text)
    questions: list[Callable[[], object]] = [
        lambda: Ledger(path),
        lambda: ledger.record(CURVE),
        lambda: ledger.spent(DELTA),
        lambda: ledger.budget(CURVE, epsilon=9, delta=DELTA).__enter__(),
    ]
    for question in questions:
        with pytest.raises(LedgerError, match=complaint) as refusal:
            question()
        assert str(path) in str(refusal.value)
    assert path.read_text() == text
    path.write_text(json.dumps(GOOD))
    assert len(ledger) == 1


def test_a_file_that_is_not_text_or_not_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "bytes").write_bytes(b'{"format": "\xff\xfe\x00"}')
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    for place in (tmp_path / "bytes", tmp_path / "folder", tmp_path / "pipe", Path("/dev/full"), Path("/dev/zero")):
        with pytest.raises(LedgerError, match=str(place)):
            Ledger(place)
    with pytest.raises(LedgerError, match="make the folder first"):
        Ledger(tmp_path / "nowhere" / "ledger.json")


def test_a_ledger_that_has_gone_or_shrunk_is_not_started_anew(tmp_path: Path) -> None:
    path = tmp_path / "ledger.json"
    ledger = Ledger(path)
    ledger.record(CURVE, label="1")
    old = path.read_bytes()
    ledger.record(CURVE, label="2")
    path.write_bytes(old)
    with pytest.raises(LedgerError, match="lost or changed entries"):
        ledger.record(CURVE)
    assert path.read_bytes() == old
    path.unlink()
    with pytest.raises(LedgerError, match="has gone"):
        ledger.record(CURVE)
    assert not path.exists()


# Trouble while writing


def failing(code: int) -> Callable[..., NoReturn]:
    def fail(*arguments: Any, **options: Any) -> NoReturn:
        raise OSError(code, os.strerror(code))

    return fail


class ThroughOs(io.FileIO):
    """A file whose writes are calls of `os.write`, where tests can fail or end them."""

    def write(self, data: Any) -> int:
        return os.write(self.fileno(), data)


def through_os(descriptor: int, *_: Any, **__: Any) -> io.BufferedRandom:
    return io.BufferedRandom(ThroughOs(descriptor, "w+b"))


@pytest.mark.slow
@pytest.mark.parametrize("function", ["write", "fsync", "replace"])
@pytest.mark.parametrize(
    ("code", "advice"), [(errno.ENOSPC, "free some space"), (errno.EACCES, "right to the file"), (errno.EIO, "check")]
)
def test_a_failed_write_leaves_the_old_file_and_nothing_else(
    function: str, code: int, advice: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "ledger.json"
    ledger = Ledger(path)
    ledger.record(CURVE, label="1")
    before = path.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(durable_file, "open", through_os, raising=False)
        patch.setattr(os, function, failing(code))
        with pytest.raises(LedgerError, match=f"nothing was recorded.*{advice}"):
            ledger.record(CURVE, label="2")
        with pytest.raises(LedgerError, match=advice), ledger.budget(CURVE, epsilon=9, delta=DELTA):
            pytest.fail("the body ran, uncharged")
    assert path.read_bytes() == before
    assert sorted(file.name for file in tmp_path.iterdir()) == ["ledger.json", "ledger.json.lock"]
    ledger.record(CURVE, label="3")
    assert labels(path) == ["1", "3"]


def test_no_right_to_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "ledger.json"
    ledger = Ledger(path)
    open_ = os.open

    def guarded(name: Any, flags: int, mode: int = 0o777) -> int:
        return failing(errno.EACCES)() if flags & os.O_CREAT else open_(name, flags, mode)

    monkeypatch.setattr(os, "open", guarded)
    with pytest.raises(LedgerError, match="right to the file"):
        ledger.record(CURVE)
    assert len(Ledger(path)) == 0, "reading needs no right to write"
    with pytest.raises(LedgerError, match="right to the file"):
        Ledger(tmp_path / "new.json").record(CURVE)


def test_a_refused_first_round_leaves_no_file(tmp_path: Path) -> None:
    path = tmp_path / "ledger.json"
    ledger = Ledger(path)
    with pytest.raises(BudgetError), ledger.budget(CURVE, epsilon=1e-3, delta=1e-6):
        pass
    assert (len(ledger), ledger.limit, path.exists()) == (0, None, False)
    ledger.record(CURVE, label="1")
    assert labels(path) == ["1"]


@pytest.mark.slow
def test_a_disk_that_fills_up_in_the_middle_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "ledger.json"
    script = """
for i in range(5):
    ledger.record(curve, label=str(i))
size = os.path.getsize(path)
resource.setrlimit(resource.RLIMIT_FSIZE, (size + 20, resource.RLIM_INFINITY))
try:
    ledger.record(curve, label="too much")
except LedgerError as error:
    print(error)
"""
    (said,) = finished(run(script, path))
    assert "cannot write" in said
    assert labels(path) == list("01234")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["ledger.json", "ledger.json.lock"]


def test_the_order_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The new file is whole on the disk before it is renamed, and the rename before `record` returns."""
    ledger = Ledger(tmp_path / "ledger.json")
    done = on_disk(monkeypatch)
    ledger.record(CURVE)
    assert done == [f"file of {(tmp_path / 'ledger.json').stat().st_size}", "rename", "folder"]


def test_a_folder_that_cannot_be_forced_is_told_as_such(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = Ledger(tmp_path / "ledger.json")
    fsync = os.fsync
    monkeypatch.setattr(
        os, "fsync", lambda fd: failing(errno.EIO)() if stat.S_ISDIR(os.fstat(fd).st_mode) else fsync(fd)
    )
    with pytest.raises(LedgerError, match="the entry is in the file"):
        ledger.record(CURVE, label="1")
    assert labels(tmp_path / "ledger.json") == ["1"]


@pytest.mark.slow
def test_a_crash_at_any_step_leaves_the_old_or_the_new_file(tmp_path: Path) -> None:
    """Die before and after every call to the operating system that writing makes, in a process of its own."""
    path = tmp_path / "ledger.json"
    script = """
import io
from shoal import durable_file
class ThroughOs(io.FileIO):
    def write(self, data):
        return os.write(self.fileno(), data)
ledger.record(curve, label="old")
for name in ("open", "write", "fsync", "close", "replace"):
    for count in range(5):
        for after in (False, True):
            before = open(path).read()
            child = os.fork()
            if child == 0:
                real, calls = getattr(os, name), [0]
                def dying(*arguments, **options):
                    calls[0] += 1
                    if calls[0] <= count:
                        return real(*arguments, **options)
                    if after:
                        if name == "write":
                            arguments = arguments[0], arguments[1][:100]
                        real(*arguments, **options)
                    os._exit(9)
                setattr(os, name, dying)
                durable_file.open = lambda descriptor, *_, **__: io.BufferedRandom(ThroughOs(descriptor, "w+b"))
                ledger.record(curve, label="new")
                os._exit(0)
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            labels = lambda text: [entry["label"] for entry in json.loads(text)["entries"]]
            old, new = labels(before), labels(open(path).read())
            print(name, count, after, status, len(new) - len(old), flush=True)
            assert new in (old, old + ["new"]), (old, new)
            assert status == 9 or new == old + ["new"]
ledger.record(curve, label="last")
"""
    (said,) = finished(run(script, path))
    outcomes = {tuple(line.split()[-2:]) for line in said.splitlines()}
    assert outcomes == {("9", "0"), ("9", "1"), ("0", "1")}, "deaths before, deaths after, and none"
    assert labels(path)[-1] == "last"
    assert sorted(file.name for file in tmp_path.iterdir()) == ["ledger.json", "ledger.json.lock"]


@pytest.mark.slow
def test_writers_killed_at_random_moments_lose_nothing(tmp_path: Path) -> None:
    """After each SIGKILL the file has all that was acknowledged, in order, and at most one entry more."""
    path = tmp_path / "ledger.json"
    script = """
random.seed(1)
begun = time.perf_counter()
ledger.record(curve, label="0")
seconds, told = time.perf_counter() - begun, 1
for attempt in range(40):
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        for i in range(len(ledger), 10**6):
            ledger.record(curve, label=str(i))
            os.write(writer, b"x")
    os.close(writer)
    if attempt % 2:
        told += len(os.read(reader, 1))
    time.sleep(random.uniform(0, 3 * seconds))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    told += len(os.read(reader, 10**6))
    os.close(reader)
    labels = [entry["label"] for entry in json.load(open(path))["entries"]]
    assert labels == [str(i) for i in range(len(labels))]
    assert told <= len(labels) <= told + 1, (told, len(labels))
    told = len(labels)
print(told)
"""
    (said,) = finished(run(script, path))
    assert int(said) >= 20, "hardly anything was written, so hardly anything was tested"
    Ledger(path).record(CURVE)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["ledger.json", "ledger.json.lock"]


# Several at once


@pytest.mark.slow
def test_processes_lose_none_of_each_others_entries(tmp_path: Path) -> None:
    path = tmp_path / "ledger.json"
    script = "for i in range(15): ledger.record(curve, label=f'{arguments[0]}-{i}')"
    finished(*(run(script, path, name) for name in range(4)))
    found = labels(path)
    assert sorted(found) == sorted(f"{name}-{i}" for name in range(4) for i in range(15))
    for name in range(4):
        assert [label for label in found if label.startswith(f"{name}-")] == [f"{name}-{i}" for i in range(15)]


@pytest.mark.slow
def test_threads_lose_none_of_each_others_entries(tmp_path: Path) -> None:
    for ledger in (Ledger(), Ledger(tmp_path / "ledger.json")):
        start = threading.Barrier(4)

        def work(ledger: Ledger = ledger, start: threading.Barrier = start) -> None:
            start.wait()
            for _ in range(6):
                ledger.record(CURVE)
                ledger.spent(DELTA)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(ledger) == 24


def tell(process: "subprocess.Popen[str]", line: object) -> None:
    assert process.stdin is not None
    process.stdin.write(f"{line}\n")
    process.stdin.flush()


def answer(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


@pytest.mark.slow
def test_only_one_of_two_processes_gets_the_last_round(tmp_path: Path) -> None:
    """In each race one round more is affordable than there are, and one process gets it."""
    script = """
print("ready", flush=True)
for line in sys.stdin:
    name, epsilon = line.split()
    try:
        with Ledger(name).budget(curve, epsilon=float(epsilon), delta=1e-6, planned=True):
            print("won", flush=True)
    except BudgetError:
        print("lost", flush=True)
"""
    with run(script, tmp_path / "own.json") as one, run(script, tmp_path / "own.json") as two:
        assert [answer(racer) for racer in (one, two)] == ["ready", "ready"]
        for turn in range(1, 9):
            ledger = Ledger(tmp_path / f"{turn}.json")
            if turn > 1:
                ledger.record(CURVE, rounds=turn - 1)
            budget = compose([(CURVE, turn)]).epsilon(DELTA)
            for racer in (one, two):
                tell(racer, f"{ledger.path} {budget!r}")
            assert sorted([answer(one), answer(two)]) == ["lost", "won"]
            assert sum(entry.count for entry in ledger) == turn


@pytest.mark.slow
def test_only_one_of_two_processes_settles_the_budget(tmp_path: Path) -> None:
    """In each race two budgets are asked for, large enough for both; one is stored, and the other refused."""
    script = """
print("ready", flush=True)
for line in sys.stdin:
    name, epsilon = line.split()
    try:
        with Ledger(name).budget(curve, epsilon=float(epsilon), delta=1e-6):
            print(epsilon, flush=True)
    except BudgetError as error:
        print("stored with its first round" in str(error), flush=True)
"""
    with run(script, tmp_path / "own.json") as one, run(script, tmp_path / "own.json") as two:
        assert [answer(racer) for racer in (one, two)] == ["ready", "ready"]
        for turn in range(8):
            path = tmp_path / f"{turn}.json"
            tell(one, f"{path} 1.0")
            tell(two, f"{path} 2.0")
            answers = [answer(one), answer(two)]
            assert answers.count("True") == 1
            limit = Ledger(path).limit
            assert limit is not None
            assert repr(limit.epsilon) in answers
            assert len(Ledger(path)) == 1
