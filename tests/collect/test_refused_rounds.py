"""A shuffler that refuses a report for one round and asks for it in the next gets the same report, not another one."""

from pathlib import Path

from shoal.collect.connection import Answer
from shoal.collect.envelope import information, opened
from shoal.collect.sender import Sender
from shoal.mechanisms import RandomizedResponse
from tests.collect.world import World, make_world


class Greedy:
    """A shuffler that opens, with the analyst, what it gets, and says twice that the round is over."""

    url = "https://greedy.example"

    def __init__(self, world: World) -> None:
        self.world, self.round = world, 5
        self.read: list[bytes | None] = []

    def request(self, method: str, path: str, body: bytes = b"", headers: object = None) -> Answer:
        if method == "GET":
            return Answer(200, {}, b'{"round": %d, "closes": 0}' % self.round)
        self.read += opened(self.world.analyst_key, information(self.world.task, self.round), [body])
        if len(self.read) % 3:
            self.round += 1
            return Answer(409, {}, b"{}")
        return Answer(201, {}, b"")


def test_a_refused_report_is_not_drawn_again(tmp_path: Path) -> None:
    """With 1,000 categories and nearly only noise, three draws would all agree by chance with probability 1e-6."""
    world = make_world(tmp_path, mechanism=RandomizedResponse(categories=1000, local_epsilon=0.1), round_seconds=1)
    greedy = Greedy(world)
    times = iter(range(0, 1000, 100))
    Sender(world.task, greedy, None, clock=lambda: next(times)).send(7)  # type: ignore[arg-type]
    assert len(greedy.read) == 3 and None not in greedy.read
    assert len(set(greedy.read)) == 1
