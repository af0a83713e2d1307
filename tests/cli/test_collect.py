"""The verbs about collection, and the whole of it once."""

import hashlib
import importlib.metadata
import json
import os
import re
import signal
import sqlite3
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from itertools import chain, takewhile
from pathlib import Path
from typing import Any

import pytest

import shoal
from shoal.calibration.target import ROOM
from shoal.charts.svg_chart import Chart
from shoal.cli import main, pictures
from shoal.cli.verbs.shuffler import open_warning
from shoal.collect.envelope import plaintexts, seal
from shoal.collect.round_state import record
from shoal.collect.shuffler import Shuffler
from shoal.collect.stores.sqlite import SqliteStore
from shoal.collect.task import Task
from shoal.files.names import Names
from tests.cli.commands import facts_of, refused, run
from tests.cli.schemas import check
from tests.collect.small_server import Asked, Said, SmallServer, small_server
from tests.collect.world import World, make_exact_world

NEW = (
    "task new --question Which? --categories a,b,c,d --mechanism randomized-response --local-epsilon 2 "
    "--epsilon-limit 1 --analyst-key analyst.pub --shuffler-key shuffler.pub --minimum 1000 --malicious 0"
)

FEW: dict[str, Any] = {"mechanism": shoal.RandomizedResponse(categories=16, local_epsilon=40)}
"""A lie has probability 1e-16."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state-home"))
    return tmp_path


@pytest.fixture
def keys(folder: Path) -> None:
    for role in ("analyst", "shuffler"):
        assert main(["keygen", role, "--json"]) == 0


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return make_exact_world(tmp_path_factory.mktemp("world"), **FEW)


class Front:
    """Answers clients as the shuffler does, but for what it is told to do otherwise."""

    def __init__(self, world: World) -> None:
        self.task, self.posts, self.trouble = world.task.to_bytes(), list[Asked](), list[Said]()

    def __call__(self, asked: Asked) -> Said:
        if asked.method == "POST":
            self.posts.append(asked)
            return self.trouble.pop() if self.trouble else Said(201)
        return Said(body=b'{"round": 1, "closes": 2e9}' if asked.path.endswith("/round") else self.task)


@pytest.fixture
def front(world: World) -> Front:
    return Front(world)


@pytest.fixture
def server(world: World, front: Front) -> Iterator[SmallServer]:
    with small_server(front, world.shuffler) as running:
        yield running


def test_private_keys_are_private(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = facts_of(capsys, "keygen analyst --folder a")
    status, out, _ = run(capsys, "keygen shuffler --folder s --host shuffler.example.org --host 127.0.0.1")
    assert status == 0
    assert "s/shuffler.key, signs what is released" in out
    assert made["private_key"] == "a/analyst.key"
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.glob("[as]/*")}
    assert modes == {
        **dict.fromkeys(("analyst.key", "analyst-tls.key", "shuffler.key", "shuffler-tls.key"), 0o600),
        **dict.fromkeys(("analyst.pub", "analyst-tls.crt", "shuffler.pub", "shuffler-tls.crt"), 0o644),
    }
    assert "there already" in refused(capsys, "keygen analyst --folder a")
    os.chmod("a/analyst.key", 0o640)
    assert "analyst.pub" in refused(capsys, NEW)
    facts_of(capsys, NEW.replace("analyst.pub", "a/analyst.pub").replace("shuffler.pub", "s/shuffler.pub"))
    told = refused(capsys, "analyst count --task task.json --folder work --key a/analyst.key")
    assert "others can read the private key a/analyst.key; run: chmod 600 a/analyst.key" in told


@pytest.mark.slow
@pytest.mark.usefixtures("keys")
def test_a_task_is_made_shown_and_verified(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    made = facts_of(capsys, f"{NEW} --round 10m".replace("--minimum 1000 --malicious 0", "--malicious 10"))
    task = Task.read(folder / "task.json")
    assert made["id"] == task.id
    assert (made["round_seconds"], made["fakes"], made["too_small"], made["delta"]) == (600, 10, "extend", 1e-6)
    mechanism = shoal.RandomizedResponse(categories=4, local_epsilon=2)
    fewest = made["minimum"] - 20  # ten that hide nobody, and the same ten if they are junk
    assert shoal.amplify(mechanism, reports=fewest).epsilon(1e-6) <= 1
    assert shoal.amplify(mechanism, reports=fewest - 1).epsilon(1e-6) > 1 - ROOM
    central = shoal.amplify(mechanism, reports=fewest + 10).epsilon(1e-6)
    assert made["central_at_minimum"]["epsilon"] == central
    assert facts_of(capsys, "task show task.json") == made
    status, out, _ = run(capsys, "task show task.json")
    assert (status, out.splitlines()[0]) == (0, "Which?")
    assert task.id in out
    assert "10 minutes, at least" in out
    assert facts_of(capsys, f"task verify task.json --id {task.id}")["verified"] is True
    assert run(capsys, f"task verify task.json --id {task.id.upper()}")[1].startswith("task.json is the task that was")
    told = refused(capsys, f"task verify task.json --id {'0' * 64}")
    assert "not the task that was pinned" in told
    (folder / "task.json").write_bytes(task.to_bytes().replace(b'"fakes":10', b'"fakes":11'))
    assert "not the task that was pinned" in refused(capsys, f"task verify task.json --id {task.id}")


@pytest.mark.slow
@pytest.mark.usefixtures("keys")
def test_how_many_fakes_is_asked(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody gets a task with 0 who has not said so, and whoever has is told what it means, in all three places."""
    capsys.readouterr()
    unsaid = NEW.replace(" --malicious 0", "")
    told = refused(capsys, unsaid)
    assert "needs --malicious with a value" in told and "With 0 the central ε holds only if there is not one" in told
    assert not (folder / "task.json").exists()
    task = facts_of(capsys, NEW)
    for command in (NEW, "task show task.json", f"task verify task.json --id {task['id']}"):
        status, out, _ = run(capsys, command)
        told = " ".join(out.split())
        assert status == 0 and "holds only if none of the other reports is made up by whoever looks" in told
        assert "none of the other reports is made up" in facts_of(capsys, command)["assumes"]
    ours, theirs = os.openpty()
    with open(theirs, encoding="utf-8") as terminal, open(ours, "w", encoding="utf-8") as typed:
        monkeypatch.setattr("sys.stdin", terminal)
        typed.write("37\n")
        typed.flush()
        status, out, error = run(capsys, f"{unsaid} --output other.json")
        assert (
            status == 0
            and "how many malicious reports?" in error
            and "at most 37 of the other reports" in " ".join(out.split())
        )
        typed.write("few\n")
        typed.flush()
        status, _, error = run(capsys, f"{unsaid} --output third.json")
        assert status == 2 and "malicious must be a whole number" in error
    assert Task.read(folder / "other.json").malicious == 37


@pytest.mark.slow
@pytest.mark.usefixtures("keys")
def test_what_a_task_with_dummies_or_covers_assumes_of_others(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Dummies hide everybody, whatever others send; covers of malicious reports hide nobody, and no ε₀ is left."""
    common = "task new --question Which? --categories a,b --malicious 0 --minimum 500 --epsilon-limit 2"
    keys = "--analyst-key analyst.pub --shuffler-key shuffler.pub --schema schema.json"
    told = {}
    for mechanism in (shoal.Dummies(categories=2, epsilon=1, limit=40), shoal.Covered(categories=2, fill=0.5)):
        (folder / "schema.json").write_text(json.dumps(mechanism.to_dict()))
        _, out, _ = run(capsys, f"{common} {keys} --output {mechanism.name}.json")
        told[mechanism.name] = " ".join(out.split()), open_warning(Task.read(folder / f"{mechanism.name}.json"))
    text, warning = told["dummies"]
    assert "what other people send makes no difference" in text and "true ε is larger" not in text
    assert "dummies hide everybody all the same" in warning
    text, warning = told["covered"]
    assert "with each that is, the true ε is larger" in text and "nothing hides that person" in warning
    for text, _ in told.values():
        assert "if shuffler and analyst collude, what remains is nothing" in text


@pytest.mark.slow
@pytest.mark.usefixtures("keys")
def test_tasks_that_are_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert "it takes at least --minimum " in refused(capsys, NEW.replace("1000", "20"))
    assert "such as 10m, 24h or 7d" in refused(capsys, f"{NEW} --round 10x")
    assert "--too-small must be one of extend, discard" in refused(capsys, f"{NEW} --too-small release")
    assert "give the .pub file" in refused(capsys, NEW.replace("analyst.pub", "analyst.key"))
    assert "no public key of the analyst" in refused(capsys, NEW.replace("analyst.pub", "shuffler.pub"))
    assert "--epsilon-limit must be greater than 0" in refused(capsys, NEW.replace("limit 1", "limit 0"))
    assert "round must be at least 1" in refused(capsys, f"{NEW} --round 0")
    assert "at most 10,000, got 20,000\n" in refused(capsys, f"{NEW} --replay-rounds 20000")
    assert "it is not a file; give the name of a file" in refused(capsys, f"{NEW} --output {folder}")
    assert not (folder / "task.json").exists()
    assert facts_of(capsys, NEW) == facts_of(capsys, NEW)  # the same again is no harm
    told = refused(capsys, NEW.replace("Which?", "Who?"))
    (folder / "other.json").write_text("{}")
    assert "other.json is no task file" in refused(capsys, "task show other.json")
    assert "task.json is there already, and somebody may have pinned it" in told


@pytest.mark.usefixtures("keys")
def test_a_task_from_a_plan(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    schema = shoal.SubsetSelection(categories=4, local_epsilon=2).to_dict()
    (folder / "plan.json").write_text(json.dumps({"schema": schema}))
    command = NEW.replace("--mechanism randomized-response --local-epsilon 2", "--schema plan.json")
    made = facts_of(capsys, command)
    assert made["mechanism"] == schema
    assert made["names"] == ["a", "b", "c", "d"]


def reporting(world: World, server: SmallServer, value: str = "7") -> str:
    ca = world.shuffler["tls_certificate"]
    return f"report {value} --task {world.task_path} --shuffler https://127.0.0.1:{server.port} --ca {ca}"


def test_a_report_is_sent_once_a_round(
    folder: Path, world: World, server: SmallServer, front: Front, capsys: pytest.CaptureFixture[str]
) -> None:
    sent = facts_of(capsys, reporting(world, server))
    assert (sent["new"], sent["round"], sent["task"]) == (True, 1, world.task.id)
    assert sent["state"] == str(folder / "state-home" / "shoal" / world.task.id)
    again = facts_of(capsys, reporting(world, server, "8"))
    assert again == sent | {"new": False}
    status, out, _ = run(capsys, reporting(world, server, "8"))
    assert (status, out.splitlines()[0]) == (0, "round 1: this round has your report already; nothing was sent")
    assert len(front.posts) == 1


def test_the_value_can_come_from_standard_input(
    folder: Path, world: World, server: SmallServer, front: Front, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading, writing = os.pipe()
    os.write(writing, b"7\n")
    os.close(writing)
    with open(reading, encoding="utf-8") as file:
        monkeypatch.setattr(sys, "stdin", file)
        assert main(reporting(world, server, "-").split()) == 0
    assert len(front.posts) == 1
    (folder / "two").write_text("7\n8\n")
    with open("two", encoding="utf-8") as file:
        monkeypatch.setattr(sys, "stdin", file)
        assert main(reporting(world, server, "-").split()) == 2


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shoal.collect.sender.PATIENCE", 0.0)


@pytest.mark.slow
@pytest.mark.usefixtures("impatient")
def test_a_lost_answer_is_made_good_with_the_same_bytes(
    folder: Path, world: World, server: SmallServer, front: Front, capsys: pytest.CaptureFixture[str]
) -> None:
    front.trouble = [Said(lost=True), Said(lost=True)]  # the second, for a connection that is tried again
    assert "try again" in refused(capsys, reporting(world, server), status=3)
    front.trouble = [Said(503, b'{"detail": "the disk is full"}', {"Retry-After": "5"})]
    told = refused(capsys, reporting(world, server), status=3)
    assert "the disk is full. In 5 seconds, repeat the same command" in told
    front.trouble = []
    assert facts_of(capsys, reporting(world, server))["new"] is True
    assert len(front.posts) >= 3
    assert len({asked.body for asked in front.posts}) == 1


def test_a_client_that_cannot_verify_sends_nothing(
    folder: Path, world: World, server: SmallServer, front: Front, capsys: pytest.CaptureFixture[str]
) -> None:
    url, ca = f"https://127.0.0.1:{server.port}", world.shuffler["tls_certificate"]
    fetched = f"report 7 --task-id {world.task.id} --shuffler {url} --ca {ca}"
    front.task = world.task.to_bytes().replace(b'"minimum":2', b'"minimum":3')
    assert "not the task that was pinned" in refused(capsys, fetched)
    victim = folder / "task.json"
    victim.write_bytes(front.task)
    told = refused(capsys, f"report 7 --task {victim} --task-id {world.task.id} --shuffler {url} --ca {ca}")
    assert "not the task that was pinned" in told
    assert "this needs --task with a file, or --task-id" in refused(capsys, f"report 7 --shuffler {url} --ca {ca}")
    other = world.analyst["tls_certificate"]
    told = refused(capsys, f"report 7 --task {world.task_path} --shuffler {url} --ca {other}")
    assert "does not prove that it is the shuffler" in told
    told = refused(capsys, f"report 7 --task {world.task_path} --shuffler http://shuffler.example.org")
    assert "not encrypted" in told
    assert "none of the categories" in refused(capsys, reporting(world, server, "-5"))
    tokened = f"{reporting(world, server)} --token-file token"
    assert "cannot read tokens from token: No such file or directory\n" in refused(capsys, tokened)
    for content, told in (("", "has no token"), ("a b\n", "token, line 1: a token is"), ("a\nb\n", "one token, yours")):
        (folder / "token").write_text(content)
        assert told in refused(capsys, tokened)
    assert front.posts == []
    front.task = world.task.to_bytes()
    assert facts_of(capsys, fetched)["new"] is True


@pytest.mark.slow
def test_rounds_end_by_their_time_and_minimum_only(
    folder: Path, world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    options = f"--task {world.task_path} --folder rounds"
    signed = f"{options} --key {world.shuffler['private_key']}"
    for verb in (f"seal {signed}", f"purge {signed}", f"status {options}"):
        assert "`shoal shuffler serve` begins them" in refused(capsys, f"shuffler {verb}")
    tls = "--tls-certificate s.crt --tls-key s.key --analyst-certificate a.crt --open"
    for verb in (f"seal {signed}", f"serve {signed} {tls}"):
        told = refused(capsys, f"shuffler {verb} --accept-asynchronous-standbys")
        assert "--accept-asynchronous-standbys is about PostgreSQL" in told
    (folder / "rounds").mkdir()

    def begin(now: float) -> Shuffler:
        store = SqliteStore(folder / "rounds" / "shuffler.db", world.task, now=now)
        return Shuffler(world.task, store, folder / "rounds", world.shuffler_key, clock=lambda: now)

    shuffler = begin(time.time() - 50)
    shuffler.accept(1, [record(body) for body in world.junk(1)])
    shuffler.shut()
    told = refused(capsys, f"shuffler seal {signed}", status=3)
    assert re.search("round 1 is open for another [0-9]+ seconds, until .*; no round is released before its time", told)
    now = facts_of(capsys, f"shuffler status {options}")
    assert [(one["round"], one["state"], one["reports"]) for one in now["rounds"]] == [(1, "open", None)]
    _rewind(folder)
    told = refused(capsys, f"shuffler seal {signed}", status=1)
    assert "round 1 has ended with fewer reports than the minimum of 2, and goes on" in told
    shuffler = begin(time.time())
    shuffler.accept(1, [record(body) for body in world.junk(2)])
    shuffler.shut()
    assert "no round is released before its time" in refused(capsys, f"shuffler seal {signed}", status=3)
    _rewind(folder)
    sealed = facts_of(capsys, f"shuffler seal {signed}")
    assert [(one["round"], one["state"], one["reports"]) for one in sealed["rounds"]] == [(1, "ready", 3)]
    status, out, _ = run(capsys, f"shuffler status {options}")
    assert status == 0
    assert re.match(
        r"round 2 is open until .*\nround +state +reports +ends\n +1 +ready +3 .*\n +2 +open +not shown ", out
    )
    assert facts_of(capsys, f"shuffler purge {signed}")["purged"] == []
    shuffler = begin(time.time())
    shuffler.acknowledge(1, shuffler.released(1)[1].sha256)
    shuffler.shut()
    assert facts_of(capsys, f"shuffler purge {signed}")["purged"] == [1]
    assert not list((folder / "rounds").glob("*.batch"))


def _rewind(folder: Path) -> None:
    """Have the open round's time come."""
    with closing(sqlite3.connect(folder / "rounds" / "shuffler.db")) as database, database:
        database.execute("UPDATE round SET closes = ? WHERE state = 'open'", (time.time() - 1,))


def test_a_round_waits_for_its_helpers(folder: Path, keys: None, capsys: pytest.CaptureFixture[str]) -> None:
    """From keys and a task to the verb that sends dummies, and what the shuffler's verbs say until it has run."""
    for name in ("one", "two"):
        made = facts_of(capsys, f"keygen helper --folder {name}")
        assert made == {"role": "helper", "private_key": f"{name}/helper.key", "public_key": f"{name}/helper.pub"}
    assert stat.S_IMODE((folder / "one/helper.key").stat().st_mode) == 0o600
    assert "signs dummies: it stays with the helper" in run(capsys, "keygen helper --folder three")[1]
    schema = shoal.Dummies(categories=3, epsilon=1, limit=27).to_dict()
    (folder / "schema.json").write_text(json.dumps(schema))
    new = (
        "task new --question Which? --categories a,b,c --schema schema.json --epsilon-limit 1 --malicious 0 "
        "--minimum 2 --analyst-key analyst.pub --shuffler-key shuffler.pub --helper-key"
    )
    told = refused(capsys, f"{new} analyst.pub")
    assert "analyst.pub is no public key of the helper" in told
    made = facts_of(capsys, f"{new} one/helper.pub --helper-key two/helper.pub")
    assert (made["mechanism"]["helpers"], len(made["helper_keys"]), made["format"]) == (3, 2, "shoal task 2")
    out = run(capsys, "task show task.json")[1]
    assert "of 2 helpers and the shuffler; a round without those of all" in out
    agreed = Task.read(folder / "task.json")
    (folder / "rounds").mkdir()
    store = SqliteStore(folder / "rounds" / "shuffler.db", agreed, now=time.time() - 1e6)
    store.add(1, [record(seal(agreed, 1, each)) for each in plaintexts(agreed, [0, 1, 2])])
    store.shut()
    signed = "--task task.json --folder rounds --key shuffler.key"
    told = refused(capsys, f"shuffler seal {signed}", status=3)
    assert "round 1 is sealed, and waits for the dummies of 2 of its 2 helpers" in told
    first = facts_of(capsys, "shuffler status --task task.json --folder rounds", status=3)["rounds"][0]
    assert (first["state"], first["helpers_missing"], first["overdue"]) == ("sealed", 2, "helpers")
    shown = run(capsys, "shuffler status --task task.json --folder rounds")[1]
    assert "sealed, waits for dummies of 2 helpers" in shown and "overdue" in shown
    waiting = [1]

    def door(asked: Asked) -> Said:
        if asked.method == "GET":
            return Said(body=json.dumps({"rounds": waiting}).encode())
        waiting.clear()
        return Said(201)

    paths = {"tls_certificate": folder / "shuffler-tls.crt", "tls_key": folder / "shuffler-tls.key"}
    with small_server(door, paths) as server:
        send = f"helper send task.json --shuffler https://127.0.0.1:{server.port} --ca shuffler-tls.crt --key"
        assert "is not the private key of a helper that the task names" in refused(capsys, f"{send} three/helper.key")
        assert "is no private key of a helper" in refused(capsys, f"{send} analyst.key")
        found = facts_of(capsys, f"{send} one/helper.key")
        assert found["rounds"] == [1] and found["state"].startswith(str(folder / "state-home"))
        status, out, _ = run(capsys, f"{send} one/helper.key")
        assert status == 0 and out.startswith("no round waits for dummies\n")
        waiting.append(2)
        assert run(capsys, f"{send} one/helper.key --state mine")[1].startswith("dummies added to round 2\n")
        waiting.append(1)
        assert "no second draw is sent" in refused(capsys, f"{send} one/helper.key --state mine")
    assert "cannot reach" in refused(capsys, f"{send} one/helper.key", status=3)


@pytest.mark.slow
def test_a_round_that_is_too_small_is_discarded(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    world = make_exact_world(tmp_path / "world", **FEW, too_small="discard")
    (folder / "rounds").mkdir()
    SqliteStore(folder / "rounds" / "shuffler.db", world.task, now=time.time() - 100).shut()
    signed = f"--task {world.task_path} --folder rounds --key {world.shuffler['private_key']}"
    told = refused(capsys, f"shuffler seal {signed}", status=1)
    assert "was discarded, as the task has it; nothing is released" in told
    assert "discarded" in run(capsys, f"shuffler status --task {world.task_path} --folder rounds")[1]


def test_serving_is_refused_where_it_is_not_safe(
    folder: Path, world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    shuffler, analyst = world.shuffler, world.analyst
    command = (
        f"shuffler serve --task {world.task_path} --key {shuffler['private_key']} --folder rounds "
        f"--tls-certificate {shuffler['tls_certificate']} --tls-key {shuffler['tls_key']} "
        f"--analyst-certificate {analyst['tls_certificate']}"
    )
    told = refused(capsys, command)
    assert "anybody can flood a round with made-up reports" in told and "--tokens FILE" in told and "--open" in told
    (folder / "tokens").write_text("a\n")
    assert "give one of them" in refused(capsys, f"{command} --open --tokens tokens")
    assert "--open" in refused(capsys, f"{command} --relay-token tokens")
    unguarded, command = command, f"{command} --open"
    assert "behind a proxy" in refused(capsys, f"{command} --behind-proxy --host 0.0.0.0")
    other = command.replace(str(analyst["tls_certificate"]), "none.crt")
    assert "there is no file none.crt" in refused(capsys, other)
    (folder / "tokens").write_text("\n\n")
    assert "has no token" in refused(capsys, f"{unguarded} --tokens tokens")
    (folder / "tokens").write_text("sha256:12\n")
    assert "is no hash of a token" in refused(capsys, f"{unguarded} --tokens tokens")
    assert main([*command.split(), "--host", ""]) == 2
    assert "host must be an address" in capsys.readouterr().err
    other = command.replace(str(analyst["tls_certificate"]), str(shuffler["tls_certificate"]))
    assert "is the shuffler's own certificate" in refused(capsys, other)
    other = command.replace(str(shuffler["tls_key"]), str(analyst["tls_key"]))
    assert f"analyst-tls.key is not the private key of the certificate {shuffler['tls_certificate']}" in refused(
        capsys, other
    )
    other = command.replace(str(shuffler["private_key"]), str(analyst["private_key"]))
    assert "is no private key of a shuffler" in refused(capsys, other)
    assert "port must be at least 0 and at most 65,535, got 70,000\n" in refused(capsys, f"{command} --port 70000")
    assert not (folder / "rounds").exists()


@pytest.mark.slow
def test_a_real_shuffler_takes_reports_by_token(folder: Path, world: World, capsys: pytest.CaptureFixture[str]) -> None:
    shuffler, analyst = world.shuffler, world.analyst
    (folder / "tokens").write_text(f"sha256:{hashlib.sha256(b'first').hexdigest()}\nsecond\n")
    options = f"--task {world.task_path} --folder rounds"
    command = (
        f"shuffler serve {options} --key {shuffler['private_key']} --tokens tokens --port 0 --analyst-port 0 --json "
        f"--tls-certificate {shuffler['tls_certificate']} --tls-key {shuffler['tls_key']} "
        f"--analyst-certificate {analyst['tls_certificate']}"
    )
    with subprocess.Popen(
        [sys.executable, "-m", "shoal", *command.split()], stdout=subprocess.PIPE, text=True
    ) as server:
        try:
            assert server.stdout is not None
            lines = iter(server.stdout.readline, "")
            said = json.loads("".join(chain(takewhile("}\n".__ne__, lines), "}")))
            assert not check("shuffler-serve", said)
            (folder / "mine").write_text("first\n")
            ca = f"--ca {shuffler['tls_certificate']}"
            report = f"report 7 --task-id {world.task.id} --shuffler {said['url']} {ca}"
            assert "wants a token that it knows" in refused(capsys, report)
            assert facts_of(capsys, f"{report} --token-file mine")["new"] is True
            assert facts_of(capsys, f"{report} --token-file mine")["new"] is False
            # Another folder does not know of the first report, and the shuffler does not say that it has one.
            status, out, _ = run(capsys, f"{report} --token-file mine --state elsewhere")
            assert status == 0 and "sent and accepted (a token counts once a round; the first report stays)" in out
            (now,) = facts_of(capsys, f"shuffler status {options}")["rounds"]
            assert (now["state"], now["reports"]) == ("open", None)
            pull = f"analyst pull --task {world.task_path} --folder work --shuffler {said['analyst_url']} {ca}"
            for pair, status in ((shuffler, 2), (analyst, 0)):
                identity = f"--certificate {pair['tls_certificate']} --certificate-key {pair['tls_key']}"
                found, out, error = run(capsys, f"{pull} {identity}")
                assert found == status
                assert out.startswith("nothing to pull") if not status else "the analyst's certificate" in error
            assert facts_of(capsys, f"{pull} {identity}")["rounds"] == []
            told = refused(capsys, f"{pull.replace(said['analyst_url'], said['url'])} {identity}")
            assert "is not the shuffler's address for the analyst, usually port 8441" in told
            told = refused(capsys, f"{pull} {identity} --round 7", status=3)
            assert "the shuffler refuses: there is no round 7; the open one is 1" in told
            plain = report.replace("https", "http").replace(ca, "")
            assert "it may speak https://" in refused(capsys, plain, status=3)
            server.send_signal(signal.SIGTERM)
            assert server.wait(10) == 0
        finally:
            server.kill()


@pytest.mark.slow
def test_the_analyst_publishes_what_the_task_allows(
    folder: Path, world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    options = f"--task {world.task_path} --folder work"
    key = f"--key {world.analyst['private_key']}"
    for verb in ("estimate", f"count {key}"):
        told = refused(capsys, f"analyst {verb} {options}")
        assert "nothing was pulled into work yet; `shoal analyst pull` does it" in told
    assert not (folder / "work").exists()
    told = refused(capsys, f"analyst count {options} --key {world.analyst['public_key']}")
    assert "is no private key; give the .key file" in told
    batches = folder / "work" / "batches"
    batches.mkdir(parents=True)
    for number, records in ((1, world.sealed([5] * 6 + [6] * 4)), (2, world.junk(10))):
        (batches / f"{number}.manifest").write_bytes(world.release(batches / f"{number}.batch", records, number))
    assert "no round is counted" in refused(capsys, f"analyst estimate {options}")
    assert "`shoal analyst pull` fetches it" in refused(capsys, f"analyst count {options} {key} --round 3")
    assert "processes must be at most 1,024, got 1e+09" in refused(
        capsys, f"analyst count {options} {key} --processes 1e9"
    )
    told = facts_of(capsys, f"analyst count {options} {key}")["rounds"]
    assert [(one["round"], one["reports_valid"], one["reports_invalid"], one["new"]) for one in told] == [
        (1, 10, 0, True),
        (2, 0, 10, True),
    ]
    assert facts_of(capsys, f"analyst count {options} {key} --round 1")["rounds"][0]["new"] is False
    assert "none of its 10 reports is valid" in refused(capsys, f"analyst estimate {options}", status=1)
    assert "must be a .csv, .parquet or .json file" in refused(capsys, f"analyst estimate {options} --output x.txt")
    found = facts_of(capsys, f"analyst estimate {options} --round 1 --output all.json --plot all.png")
    assert found == json.loads((folder / "all.json").read_text())
    assert (found["frequency"][5], found["frequency"][6]) == pytest.approx((0.6, 0.4))
    assert (folder / "all.png").stat().st_size > 1000
    status, out, _ = run(capsys, f"analyst estimate {options} --round 1 --top 2 --output all.csv")
    assert status == 0
    assert re.match(r"Which of these\? Round 1, 10 reports\ncategory .*\n5 +0.60000 ", out)
    assert "local guarantee" in out
    assert "central guarantee" in out
    told = refused(capsys, f"analyst pull {options} --shuffler http://127.0.0.1:1 --certificate a --certificate-key b")
    assert "certificates are for https" in told


@pytest.mark.slow
def test_a_picture_says_what_it_shows(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    names = Names.labelled(["雪", "$a", "$b$"])  # the font does not have the first one
    mechanism = shoal.RandomizedResponse(categories=3, local_epsilon=40)
    world = make_exact_world(folder / "world", mechanism=mechanism, names=names, question="$ or $x^$?")
    batches = folder / "work" / "batches"
    batches.mkdir(parents=True)
    (batches / "1.manifest").write_bytes(world.release(batches / "1.batch", world.sealed([0, 1, 2])))
    options = f"--task {world.task_path} --folder work"
    facts_of(capsys, f"analyst count {options} --key {world.analyst['private_key']}")
    titles: list[str] = []

    def noted(_: object, chart: Chart, **__: object) -> None:
        titles.extend([chart.title, chart.note])

    monkeypatch.setattr(pictures, "save_plot", noted)
    assert run(capsys, f"analyst estimate {options} --plot all.png --top 2")[0] == 0
    assert titles == ["$ or $x^$? Round 1", "3 valid reports, ε = 39.9962 at δ = 1e-06; the top 2 of 3"]
    monkeypatch.undo()
    monkeypatch.chdir(folder)
    assert run(capsys, f"analyst estimate {options} --plot all.png")[2] == ""
    assert (folder / "all.png").stat().st_size > 1000


@pytest.mark.slow
def test_the_doctor_finds_what_is_wrong(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = facts_of(capsys, "doctor")
    states = {one["check"]: one["state"] for one in found["checks"]}
    assert set(states) >= {
        "Python",
        "sealing",
        "coins",
        "a known ε",
        "database",
        "space",
        "Java",
        "PostgreSQL",
        "terminal",
    }
    assert "wrong" not in states.values()
    assert list(folder.iterdir()) == []  # nothing is left behind
    status, out, _ = run(capsys, "doctor --folder none")
    assert status == 1
    assert out.startswith("1 check failed")
    assert re.search("wrong +folder +there is no folder none", out)


def test_the_doctor_knows_the_libraries_that_are_needed(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    stated = [
        "cryptography>=47",
        "numpy<9,>=1000.5",
        "rich>=14; extra == 'cli'",
        "psycopg[binary]<4,>=3.2; extra == 'postgres'",
        "uvloop>=0.20; (sys_platform != 'win32') and extra == 'collect'",
        "no-such-library>=1; extra == 'files'",
        "torch<3,>=2.6; extra == 'all'",
    ]
    monkeypatch.setattr(importlib.metadata, "requires", {"shoal-dp": stated}.get)
    checks = {one["check"]: one for one in facts_of(capsys, "doctor", status=1)["checks"]}
    assert [checks[name]["state"] for name in ("cryptography", "rich", "psycopg", "uvloop")] == ["fine"] * 4
    assert checks["numpy"]["state"] == "wrong" and "'numpy>=1000.5'" in checks["numpy"]["fix"]
    assert checks["no-such-library"]["state"] == "note" and "shoal-dp[files]" in checks["no-such-library"]["fix"]
    assert "torch" not in checks


def test_a_full_disk_is_told_with_the_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And not as a result that cannot be printed, which is what a full standard output is told as."""
    small = folder / "small"
    small.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4k", "none", str(small)], check=False).returncode:
        pytest.skip("no small disk can be made here")
    try:
        (small / "full").write_bytes(bytes(4096))
        told = refused(capsys, "keygen analyst --folder small")
        assert "cannot write small/analyst.key: No space left on device" in told
    finally:
        subprocess.run(["umount", str(small)], check=True)


@pytest.mark.slow
def test_a_damaged_store_is_told(world: World, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`status` says it, and nothing else works with the folder."""
    rounds = folder / "rounds"
    rounds.mkdir()
    store = SqliteStore(rounds / "shuffler.db", world.task, now=0)
    store.add(1, [record(body) for body in world.junk(300)])
    store.shut()
    with (rounds / "shuffler.db").open("r+b") as file:
        file.seek(-4096, os.SEEK_END)
        file.write(bytes([77]) * 4096)
    common = f"--task {world.task_path} --folder rounds"
    key = f"--key {world.shuffler['private_key']}"
    status, out, _ = run(capsys, f"shuffler status {common}")
    told = " ".join(out.split())
    assert status == 1 and "damaged: no report is taken" in told and "A disk that fails" in told
    assert facts_of(capsys, f"shuffler status {common}", status=1)["trouble"] is not None
    for verb in ("seal", "purge"):
        assert "A disk that fails" in refused(capsys, f"shuffler {verb} {common} {key}")
    served = {
        "--tls-certificate": world.shuffler["tls_certificate"],
        "--tls-key": world.shuffler["tls_key"],
        "--analyst-certificate": world.analyst["tls_certificate"],
    }
    options = " ".join(f"{name} {path}" for name, path in served.items())
    assert "A disk that fails" in refused(capsys, f"shuffler serve {common} {key} {options} --open")
