"""Heavy hitters over the rounds of one task: lists that are signed, checked, pinned, charged, and counted alone."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

import shoal
from shoal.collect.analyst import Analyst
from shoal.collect.batch import write_batch
from shoal.collect.connection import Connection
from shoal.collect.envelope import information, opened, plaintexts, seal
from shoal.collect.kinds.heavy_hitter_rounds import CandidateCounts, Candidates, HeavyHitterRounds, PrefixList
from shoal.collect.prefix_lists import PrefixLists, PrefixSender
from shoal.collect.shuffler import Shuffler
from shoal.collect.task import Task
from shoal.errors import (
    BudgetError,
    CollectError,
    DamagedError,
    ForgedError,
    FormatError,
    ParameterError,
    TryAgainError,
    WithheldError,
    WrongKeyError,
)
from shoal.mechanisms import Covered, Simulation
from tests.collect.running import Running, store_in, until
from tests.collect.small_server import Asked, Said, SmallServer, small_server
from tests.collect.world import World, make_covered_world, make_hunt_world

HOUR = 3600.0
WORDS = ["go"] * 25 + ["gi"] * 15 + ["up"] * 12 + ["x!"]
"""What people hold; "x!" is held by one alone, and must not be found."""


@pytest.fixture
def world(tmp_path: Path) -> World:
    return make_hunt_world(tmp_path / "world")


def _key(world: World) -> Ed25519PrivateKey:
    assert world.lists is not None
    return world.lists


def _first(world: World) -> PrefixList:
    return PrefixList.signed(world.task, 1, (0,), None, _key(world))


def _second(world: World, kept: tuple[int, ...] = (ord("g"), ord("u"))) -> PrefixList:
    return PrefixList.signed(world.task, 2, kept, _first(world), _key(world))


def test_a_list_extends_the_one_before_it(world: World) -> None:
    first, second = _first(world), _second(world)
    assert first.listed.tolist() == list(range(256)) and first.mechanism.categories == 257
    assert second.listed.tolist() == [*range(0x6700, 0x6800), *range(0x7500, 0x7600)]
    assert [one.category_of(0x676F) for one in (first, second)] == [0x67 + 1, 0x6F + 1]
    assert second.category_of(0x7821) == 0  # "none of these" is a design point of its own
    assert {one.mechanism.bytes_per_report for one in (first, second)} <= {2, 3}
    assert PrefixList.verified(second.data, world.task, 2, first).kept == second.kept
    content = json.loads(second.data)
    assert (content["previous"], content["task"]) == (first.sha256, world.task.id)
    assert json.loads(first.data)["previous"] == world.task.id


def test_lists_that_are_not_right_are_refused(world: World, tmp_path: Path) -> None:
    task, first, second = world.task, _first(world), _second(world)
    stranger = Ed25519PrivateKey.generate()
    with pytest.raises(ForgedError, match="not signed by the analyst"):
        PrefixList.signed(task, 1, (0,), None, stranger)
    with pytest.raises(ForgedError, match="not signed by the analyst"):
        PrefixList.verified(second.data.replace(b"[103,117]", b"[103,118]"), task, 2, first)
    with pytest.raises(ForgedError, match="another task or round"):  # an old list, replayed
        PrefixList.verified(first.data, task, 2, first)
    with pytest.raises(CollectError, match="there is no list of round 3: the search is over"):
        PrefixList.verified(second.data, task, 3, second)
    other = replace(task, question="Another?")
    foreign = PrefixList.signed(other, 1, (0,), None, _key(world))
    with pytest.raises(ForgedError, match="another task or round"):
        PrefixList.verified(foreign.data, task, 1, None)
    another = PrefixList.signed(task, 2, (1, 2), first, _key(world))
    assert PrefixList.verified(another.data, task, 2, first) != second
    for kept, why in (((), "ascending"), ((2, 1), "ascending"), ((1, 1), "ascending"), ((256,), "not in the list")):
        with pytest.raises((ForgedError, FormatError), match=why):
            PrefixList.signed(task, 2, kept, first, _key(world))
    with pytest.raises(ForgedError, match="does not follow"):
        PrefixList.verified(second.data, task, 2, None)
    with pytest.raises((ForgedError, FormatError)):
        PrefixList.verified(second.data.replace(b",", b", "), task, 2, first)
    with pytest.raises(CollectError, match="this task has none"):
        PrefixList.verified(first.data, make_covered_world(tmp_path / "none").task, 1, None)


def test_only_the_analyst_generates_the_children_of_a_list(world: World) -> None:
    """The shuffler and clients check and use a list of 32,768 prefixes without generating them."""
    first = _first(world)
    second = _second(world, tuple(range(128, 256)))
    assert second.mechanism.categories == 128 * 256 + 1
    for number in (0x7FFF, 0x8000, 0xABCD, 0xFFFF):
        prefix = np.searchsorted(second.listed, number)
        expected = int(prefix) + 1 if number >= 0x8000 else 0
        again = PrefixList.verified(second.data, world.task, 2, first)
        assert again.category_of(number) == expected
        assert "listed" not in vars(first) and "listed" not in vars(again)


def test_the_shuffler_verifies_each_list_once(world: World, tmp_path: Path) -> None:
    """A list that was read once is served without reading the store or checking a signature."""
    store = store_in(str(tmp_path / "store.db"), world.task)
    shuffler = Shuffler(world.task, store, tmp_path / "batches", world.shuffler_key)
    with pytest.raises(CollectError, match="numbered from 1"):
        shuffler.list_of(0)
    shuffler.publish_list(1, _first(world).data)
    assert shuffler.list_of(1).data == _first(world).data
    shuffler.shut()
    assert shuffler.list_of(1) is shuffler.list_of(1)  # the store is closed


def test_the_task_settles_all_but_the_lists(world: World) -> None:
    task = world.task
    assert Task.from_bytes(task.to_bytes(), pinned=task.id) == task and task.to_dict()["format"] == "shoal task 3"
    terms, plan = HeavyHitterRounds.of(task), HeavyHitterRounds.plan_of(task)
    assert plan.people == 40 and plan.rounds == 2
    with pytest.raises(ParameterError, match="extends a round that is too small"):
        replace(task, too_small="discard")
    with pytest.raises(ParameterError, match="not the one that stands for every round"):
        replace(task, mechanism=Covered(categories=102, slots=1, fill=0.5), epsilon_limit=50.0, delta=0.9)
    for change in ({"bits": 12}, {"first": 7}, {"code": "words"}, {"list_key": "xyz"}, {"deviations": 0}):
        with pytest.raises(ParameterError):
            replace(task, kind=replace(terms, **change))
    given = terms.to_dict()["hunt"]
    wrong: list[dict[str, Any]] = [{}, given | {"more": 1}, given | {"bits": "16"}]
    for values in wrong:
        with pytest.raises(ParameterError, match="hunt"):
            HeavyHitterRounds.stored({"hunt": values})


def test_candidates_are_counted_as_the_mechanism_counts(world: World) -> None:
    """The estimate of a round from its additive counts is the one from all its messages."""
    second = _second(world)
    values = [0] * 30 + [5] * 20 + [300] * 10
    messages = second.mechanism.randomize(values, simulation=Simulation(seed=1)).ravel()
    counter = Candidates(second.mechanism)
    tallied = counter.tally(messages[:50]) + counter.tally(messages[50:])
    counts = CandidateCounts(second.mechanism, tallied, 60)
    again = CandidateCounts.from_bytes(counts.to_bytes(), second.mechanism)
    expected = second.mechanism.estimate_messages(messages)
    for estimate in (counts.estimate(), again.estimate()):
        np.testing.assert_allclose(estimate.frequencies, expected.frequencies, rtol=0, atol=1e-12)
        np.testing.assert_allclose(estimate.standard_errors, expected.standard_errors, rtol=0, atol=1e-12)
    with pytest.raises(DamagedError):
        CandidateCounts.from_bytes(counts.to_bytes()[:-1], second.mechanism)
    with pytest.raises(DamagedError):
        CandidateCounts.from_bytes(counts.to_bytes(), _first(world).mechanism)


def _report(world: World, listed: PrefixList, word: str) -> bytes:
    category = listed.category_of(HeavyHitterRounds.of(world.task).number_of(word))
    plain = plaintexts(world.task, listed.mechanism.randomize([category]), listed.mechanism)
    return b"".join(sorted(seal(world.task, listed.round, each) for each in plain))


def test_a_budget_is_kept_before_a_list_is_signed(world: World, tmp_path: Path) -> None:
    ledger, curve = shoal.Ledger(tmp_path / "ledger.json"), HeavyHitterRounds.plan_of(world.task).of_round
    with ledger.budget(curve, epsilon=20, delta=1e-6, planned=True):
        pass
    (tmp_path / "work").mkdir()
    lists = PrefixLists(tmp_path / "work", world.task)
    with pytest.raises(BudgetError):
        lists.next([], None, _key(world), ledger)
    assert lists.newest == 0 and len(ledger) == 1


def test_a_search_without_heavy_hitters_ends(world: World, tmp_path: Path) -> None:
    """At fifty deviations no prefix of 60 people is above the threshold: an estimate would have to be off by 60."""
    terms = replace(HeavyHitterRounds.of(world.task), deviations=50.0)
    world = replace(world, task=replace(world.task, kind=terms))
    analyst = Analyst(tmp_path / "work", world.task)
    lists, ledger = PrefixLists(tmp_path / "work", world.task), shoal.Ledger()
    with pytest.raises(CollectError, match="has no list in"):
        lists.of_round(1)
    listed = lists.next([], None, _key(world), ledger)
    people = [chr(33 + index) + "a" for index in range(60)]
    records = [body[at : at + 64] for body in (_report(world, listed, word) for word in people) for at in (0, 64)]
    with (tmp_path / "work/batches/1.batch").open("w+b") as file:
        manifest = write_batch(file, world.task, 1, 60, records, messages=120)
    (tmp_path / "work/batches/1.manifest").write_bytes(manifest.signed(world.shuffler_key))
    with pytest.raises(ParameterError, match="counted by the engine local"):
        analyst.count(1, world.analyst_key, 1, engine="spark")
    analyst.count(1, world.analyst_key, 1)
    with pytest.raises(WithheldError, match="no prefix of round 1 has more people than the threshold"):
        lists.next([1], analyst.result(1), _key(world), ledger)
    assert len(ledger) == 1


@dataclass
class Front:
    """Plays the shuffler's front for a search."""

    world: World
    number: int = 1
    lists: dict[int, bytes] = field(default_factory=dict)
    answers: list[Said] = field(default_factory=list)
    posts: list[Asked] = field(default_factory=list)

    def __call__(self, asked: Asked) -> Said:
        if asked.method == "POST":
            self.posts.append(asked)
            return self.answers.pop(0) if self.answers else Said(201)
        if asked.path.endswith("/round"):
            return Said(body=json.dumps({"round": self.number, "closes": 2e9}).encode())
        data = self.lists.get(int(asked.path.split("/")[5]))
        return Said(409, b'{"detail": "no list yet"}', {"Retry-After": "5"}) if data is None else Said(body=data)


@pytest.fixture
def front(world: World) -> Front:
    return Front(world, lists={1: _first(world).data, 2: _second(world).data})


@pytest.fixture
def server(front: Front, world: World) -> Iterator[SmallServer]:
    with small_server(front, world.shuffler) as running:
        yield running


@pytest.fixture
def sender(server: SmallServer, world: World, tmp_path: Path) -> Iterator[PrefixSender]:
    with Connection(f"https://127.0.0.1:{server.port}", world.shuffler["tls_certificate"]) as connection:
        yield PrefixSender(world.task, connection, tmp_path / "state")


def _said(world: World, asked: Asked, listed: PrefixList) -> set[int]:
    """Return which categories all messages of a bundle that are not empty may be of, one by one."""
    parts = [asked.body[at : at + 64] for at in range(0, len(asked.body), 64)]
    plain = opened(world.analyst_key, information(world.task, listed.round), parts)
    size, mechanism = listed.mechanism.bytes_per_report, listed.mechanism
    messages = np.concatenate([mechanism.from_bytes(each[2 : 2 + size]) for each in plain if each is not None])
    assert len(messages) == 2
    every = np.arange(mechanism.categories)
    return {int(x) for one in messages for x in every[mechanism.supports(np.full(len(every), one), every)]}


def test_a_client_reports_its_prefix_of_each_round(
    sender: PrefixSender, front: Front, world: World, tmp_path: Path
) -> None:
    assert sender.send("go").new and not sender.send("go").new
    assert 0x67 + 1 in _said(world, front.posts[0], _first(world))
    pinned = json.loads((tmp_path / "state" / "lists.json").read_text())
    assert pinned == {"task": world.task.id, "lists": [front.lists[1].decode()]}
    front.number = 2
    assert sender.send("go").round == 2
    assert 0x6F + 1 in _said(world, front.posts[1], _second(world))
    assert [asked.path.split("/")[5] for asked in front.posts] == ["1", "2"]
    with pytest.raises(CollectError, match=r"by the length of a round that can't be|the search is over"):
        front.number = 3
        sender.send("go")
    assert len(front.posts) == 2


def test_a_client_that_comes_late_checks_all_lists(sender: PrefixSender, front: Front, world: World) -> None:
    front.number = 2
    assert sender.send("zz").round == 2 and 0 in _said(world, front.posts[0], _second(world))
    front.number = 3
    with pytest.raises(CollectError, match=r"can't be|the search is over"):
        sender.send("zz")


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["forged", "replayed", "foreign", "another", "unknown", "none"])
def test_a_client_refuses_other_lists(
    fault: str, sender: PrefixSender, front: Front, world: World, tmp_path: Path
) -> None:
    task, first = world.task, _first(world)
    assert sender.send("go").round == 1
    front.number = 2
    if fault == "another":  # pinned, and then changed before the report was acknowledged
        front.answers = [Said(503)]
        with pytest.raises(TryAgainError):
            sender.send("go")
        (tmp_path / "state" / "report.json").unlink()  # a crash in between: the list is on the disk, the report is not
        front.lists[2] = PrefixList.signed(task, 2, (ord("g"),), first, _key(world)).data
    changed = json.loads(_second(world).data)
    front.lists[2] = {
        "forged": json.dumps(changed | {"prefixes": [1]}, sort_keys=True, separators=(",", ":")).encode(),
        "replayed": first.data,
        "foreign": PrefixList.signed(replace(task, question="X?"), 1, (0,), None, _key(world)).data,
        "unknown": b"[]",
    }.get(fault, front.lists[2])
    if fault == "none":
        del front.lists[2]
    posts, before = len(front.posts), (tmp_path / "state" / "lists.json").read_bytes()
    kind = TryAgainError if fault == "none" else (ForgedError, FormatError)
    with pytest.raises(kind):
        sender.send("go")
    assert len(front.posts) == posts and (tmp_path / "state" / "lists.json").read_bytes() == before


def test_a_damaged_pin_sends_nothing(sender: PrefixSender, front: Front, world: World, tmp_path: Path) -> None:
    sender.send("go")
    path, front.number = tmp_path / "state" / "lists.json", 2
    for data in (b"", path.read_bytes()[:-2], path.read_bytes().replace(world.task.id[:8].encode(), b"00000000")):
        path.write_bytes(data)
        with pytest.raises(DamagedError, match="nobody knows which lists were pinned"):
            sender.send("go")
    assert len(front.posts) == 1
    with pytest.raises(ParameterError, match="has no search"):
        PrefixSender(make_covered_world(tmp_path / "none").task, sender.connection, tmp_path / "s")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Exception ignored in.*SSLSocket:pytest.PytestUnraisableExceptionWarning")
def test_a_real_shuffler_and_a_small_population(place: str, tmp_path: Path) -> None:
    """From the first list to the strings that were found, by clients, an analyst, and a shuffler in its own process."""
    world = make_hunt_world(tmp_path / "world", round_seconds=1, minimum=len(WORDS))  # so that it waits for all
    running = Running(world, place, tmp_path / "batches", tmp_path / "run", tls=True)
    analyst, ledger = Analyst(tmp_path / "work", world.task), shoal.Ledger(tmp_path / "ledger.json")
    lists, root = PrefixLists(tmp_path / "work", world.task), f"/v1/tasks/{world.task.id}/rounds"
    with running:
        url, ca = f"https://127.0.0.1:{running.port}", world.shuffler["tls_certificate"]
        with Connection(url, ca) as connection, running.analyst() as private:
            senders = [PrefixSender(world.task, connection, tmp_path / f"p{place}") for place in range(len(WORDS))]
            for number in (1, 2):
                with pytest.raises(TryAgainError, match="has no list of prefixes yet"):
                    senders[0].send("go")
                assert running.upload(number, b"".join(world.junk(2))).status == 503
                result = analyst.result(number - 1) if number > 1 else None
                listed = lists.next(analyst.counted(), result, _key(world), ledger)
                forged = listed.data.replace(b'"signature":"', b'"signature":"00')
                assert private.request("POST", f"{root}/{number}/list", forged).status == 400
                for _ in range(2):
                    assert lists.next(analyst.counted(), result, _key(world), ledger) == listed
                    lists.publish(private, listed)
                if number == 2:
                    other = PrefixList.signed(world.task, 2, (ord("z"),), lists.of_round(1), _key(world))
                    with pytest.raises(CollectError, match="it takes no other list"):
                        lists.publish(private, other)
                assert connection.request("POST", f"{root}/{number}/list", listed.data).status == 405
                for sender, word in zip(senders, WORDS, strict=True):
                    until(lambda: _sent(sender, word, number), "a report", 60)  # noqa: B023
                until(lambda: analyst.pull(private) == [number], "the release", 60)  # noqa: B023
                analyst.count(number, world.analyst_key, 1)
                assert analyst.acknowledge(private) == [number]
            with pytest.raises(CollectError, match=r"takes no other list|the search is over|another task or round"):
                lists.publish(private, replace(listed, round=1))
        running.stop()
    with pytest.raises(CollectError, match="the search is over"):
        lists.next(analyst.counted(), analyst.result(2), _key(world), ledger)
    with pytest.raises(WrongKeyError):
        lists.next([1], None, world.shuffler_key, ledger)
    assert [entry.label for entry in ledger] == [f"search {world.task.id[:16]}, round {number}" for number in (1, 2)]
    found = analyst.result(2)
    counts = found.tally.counts.reports * found.estimate.frequencies
    assert found.labels is not None
    assert {found.labels[place] for place in np.flatnonzero(counts > 8)} == {"go", "gi", "up"}
    assert len(ledger) == 2


def _sent(sender: PrefixSender, word: str, number: int) -> bool:
    try:
        return sender.send(word).round == number
    except TryAgainError:
        return False
