"""The bounds by clones of a Gaussian, compared with exact enumeration of small adaptive shuffled protocols."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from scipy.stats import norm

from tests.sgd import oracle
from tests.sgd.oracle import Array, History

RATIOS = np.exp([-0.7, 0.0, 0.1, 0.4, 1.2])
SLACKS = np.exp(np.linspace(0.0, 5.0, 16))
ROUNDING = 1e-13
PROTOCOLS = 2000


def dirichlet(random: np.random.Generator, size: tuple[int, ...], atoms: int, concentration: float) -> Array:
    return random.dirichlet(np.full(atoms, concentration), size=size)


def random_triple(random: np.random.Generator, *, pair: bool) -> Array:
    """Return (protocols, 3, 2): the victim's binary distributions, often randomized response, and one between them."""
    triple = dirichlet(random, (PROTOCOLS, 3), 2, 0.6)
    truth = 1 / (1 + np.exp(-random.uniform(0, 3, PROTOCOLS)))
    response = random.random(PROTOCOLS) < 0.4
    triple[response, 0] = np.stack([truth, 1 - truth], axis=1)[response]
    triple[response, 1] = np.stack([1 - truth, truth], axis=1)[response]
    if pair:
        return oracle.mixed(triple[:, :2])
    triple[:, 2] = 0.8 * triple[:, 2] + 0.1 * (triple[:, 0] + triple[:, 1])
    return triple


class Game:
    """Random adaptive protocols: garblings of a triple for the victim, others on or somewhat off the blanket."""

    def __init__(self, seed: int, people: int, *, pair: bool, like: Game | None = None) -> None:
        random = np.random.default_rng(seed)
        self.people = people
        self.triple: Array = like.triple if like else random_triple(random, pair=pair)
        self.slack: Array = like.slack if like else np.exp(random.uniform(0, 1.5, PROTOCOLS))
        self.stray = np.where(random.random(PROTOCOLS) < 0.5, 0.0, 10 ** random.uniform(-5, 0, PROTOCOLS))
        self.plain = random.random(PROTOCOLS) < 0.5
        self.blankets: dict[History, Array] = {}
        self.protocol = oracle.play(people, 3, lambda history: self._distributions(random, history))
        self.lost = oracle.deficit(self.protocol, self.blankets, self.slack)

    def _distributions(self, random: np.random.Generator, history: History) -> Array:
        garbling = dirichlet(random, (PROTOCOLS, 2), 3, 0.4)
        garbling[self.plain] = np.eye(2, 3)
        victim = self.triple @ garbling
        self.blankets[history] = victim[:, 2]
        spikes = np.eye(3)[np.where(self.plain, 2, random.integers(0, 3, PROTOCOLS))]
        others = []
        for _ in range(self.people - 1):
            base = victim[:, 2] / self.slack[:, None] + (1 - 1 / self.slack)[:, None] * spikes
            kind = random.integers(0, 3, PROTOCOLS)[:, None]
            away = np.where(kind == 0, victim[:, 0], np.where(kind == 1, np.eye(3)[kind[:, 0]], victim[:, 1]))
            others.append(base + self.stray[:, None] * (away - base))
        return np.concatenate([victim[:, :2], np.stack(others, axis=1)], axis=1)


@pytest.mark.slow
@pytest.mark.parametrize("pair", [True, False])
@pytest.mark.parametrize("people", [2, 3, 4])
def test_every_adaptive_protocol_is_below_both_bounds(people: int, *, pair: bool) -> None:
    game = Game(people, people, pair=pair)
    distributions = oracle.shuffled_distributions(game.protocol)
    largest = 0.0
    for number in RATIOS:
        ratio = np.full(PROTOCOLS, number)
        for protocol, (first, second), triple in (
            (game.protocol, distributions, game.triple),
            (oracle.swapped(game.protocol), distributions[::-1], game.triple[:, [1, 0, 2]]),
        ):
            truth = oracle.hockey_stick(first, second, ratio)
            met = oracle.overlap(protocol, game.blankets, ratio, game.slack)
            bounds = (
                oracle.additive(people, triple, ratio, game.slack, lost=game.lost),
                oracle.multiplied(people, triple, ratio, game.slack, lost=game.lost, met=met),
            )
            for bound in bounds:
                assert np.all(truth <= bound + ROUNDING)
            tight = game.plain & (game.stray == 0) & (truth > 1e-3)
            largest = max(largest, float(np.max(truth[tight] / bounds[0][tight], initial=0)))
    assert largest == pytest.approx(1, abs=1e-9)  # attained where the others are exactly clones


def test_clones_that_are_not_there() -> None:
    people, ratio = 3, np.full(PROTOCOLS, 1.1)
    game = Game(11, people, pair=True)
    truth = oracle.hockey_stick(*oracle.shuffled_distributions(game.protocol), ratio)
    tight = game.plain & (game.stray == 0)
    smaller = oracle.clones(people, game.triple, ratio, np.maximum(game.slack / 1.2, 1))
    assert np.any(truth[tight] > 1.05 * smaller[tight])


@pytest.mark.parametrize(
    ("victim", "other", "needed"),
    [
        ([[0.3, 0.7], [0.0, 1.0]], [0.0, 1.0], "met"),  # the others never send what only the victim of world 0 sends
        ([[0.9, 0.1], [0.1, 0.9]], [1.0, 0.0], "lost"),  # the others never send what would hide the victim of world 0
    ],
)
def test_the_charges_are_needed(victim: list[list[float]], other: list[float], needed: str) -> None:
    people, slack, ratio = 4, np.ones(1), np.array([1.5])
    triple = oracle.mixed(np.array([victim]))
    protocol = oracle.play(people, 2, lambda _: np.array([[*victim, *[other] * (people - 1)]]))
    blankets = dict.fromkeys(protocol, triple[:, 2])
    truth = oracle.hockey_stick(*oracle.shuffled_distributions(protocol), ratio)
    charges = {
        "lost": oracle.deficit(protocol, blankets, slack),
        "met": oracle.overlap(protocol, blankets, ratio, slack),
    }
    assert truth <= oracle.additive(people, triple, ratio, slack, lost=charges["lost"])
    assert truth <= oracle.multiplied(people, triple, ratio, slack, **charges)
    assert truth > 2 * oracle.clones(people, triple, ratio, slack)
    assert truth > 1.2 * oracle.multiplied(people, triple, ratio, slack, **charges | {needed: np.zeros(1)})


@pytest.mark.parametrize("pair", [True, False])
def test_two_passes_with_fresh_orders(*, pair: bool) -> None:
    people, ratio = 2, np.full(PROTOCOLS, 1.3)
    game = Game(21, people, pair=pair)
    # What the second pass does depends on what the first one showed; the triple and the slack do not.
    again = [Game(22 + shown, people, pair=pair, like=game) for shown in range(9)]
    first = oracle.shuffled_distributions(game.protocol)
    second = [oracle.shuffled_distributions(other.protocol) for other in again]
    worlds = [np.concatenate([first[world][:, [i]] * second[i][world] for i in range(9)], axis=1) for world in (0, 1)]
    truth = oracle.hockey_stick(worlds[0], worlds[1], ratio)
    lost = np.max([g.lost for g in (game, *again)], axis=0)
    met = np.max([oracle.overlap(g.protocol, g.blankets, 0 * ratio, game.slack) for g in (game, *again)], axis=0)

    def twice(slack: Array) -> Array:
        """Return the divergence of two independent copies of the pair: clones with this slack, else a third output."""
        other = np.concatenate([game.triple[:, 2] / slack[:, None], 1 - 1 / slack[:, None]], axis=1)
        victim = np.concatenate([game.triple[:, :2], np.zeros((PROTOCOLS, 2, 1))], axis=2)
        distributions = np.concatenate([victim, other[:, None]], axis=1)
        zero, one = (
            (distribution[:, :, None] * distribution[:, None, :]).reshape(PROTOCOLS, -1)
            for distribution in oracle.shuffled_distributions(oracle.play(people, 3, lambda _: distributions))
        )
        return oracle.hockey_stick(zero, one, ratio)

    factor = (1 + lost) ** (people - 1)
    assert np.all(truth <= twice(game.slack) + 2 * (people - 1) * lost * (1 + ratio) + ROUNDING)
    assert np.all(truth <= factor**2 * twice(game.slack * (1 + lost)) + met * (factor + factor**2) + ROUNDING)


# Gaussian reports


def binned(means: Array, edges: Array, deviation: float = 1.0) -> Array:
    """Return the probabilities of the bins between these edges, for reports with these means."""
    ends = np.concatenate([[-np.inf], edges, [np.inf]])
    return np.asarray(np.diff(norm.cdf(ends, means[..., None], deviation), axis=-1))


def met_centre(shift: float, slack: float) -> float:
    """Return the largest ∫R₀(1 − slack · Rⱼ/N(0, 1))₊ for means within this distance of 0."""
    level = 1.5 * shift - math.log(slack) / shift
    return float(norm.cdf(level) - slack * math.exp(-shift * shift) * norm.cdf(level - shift))


def charged(clones: float, people: int, ratio: float, lost: float) -> float:
    return clones + (people - 1) * lost * (1 + ratio)


def pair_bounds(people: int, shift: float, lost: list[float], far: float, *, ratio: float, bins: int) -> list[float]:
    """Return both bounds, the best over the slacks, for a victim that moves by `shift` and others within `far`."""
    triple, ratios = oracle.gaussian_triple(shift, bins), np.array([ratio])
    found = []
    for slack, deficit in zip(SLACKS, lost, strict=True):
        slacks, charge = np.array([slack]), np.array([deficit])
        met = np.array([oracle.gaussian(far, 2 * slack * ratio / (1 + ratio))])
        found.append(
            [
                float(oracle.additive(people, triple, ratios, slacks, lost=charge)[0]),
                float(oracle.multiplied(people, triple, ratios, slacks, lost=charge, met=met)[0]),
            ]
        )
    return [min(column) for column in zip(*found, strict=True)]


def centre_bounds(people: int, means: tuple[float, float], ratio: float, bins: int) -> list[float]:
    """Return both bounds with the blanket at the centre of the ball, the best over the slacks."""
    shift = max(map(abs, means))
    found = []
    for slack in SLACKS:
        lost = oracle.gaussian(shift, slack) / slack
        met = slack * lost if means[0] == 0 else met_centre(shift, slack)
        grown = oracle.centred(people, means, ratio, slack * (1 + lost), bins)
        found.append(
            [
                charged(oracle.centred(people, means, ratio, slack, bins), people, ratio, lost),
                (1 + lost) ** (people - 1) * (grown + met),
            ]
        )
    return [min(column) for column in zip(*found, strict=True)]


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", ["replace", "zero-out"])
@pytest.mark.parametrize(("people", "shift"), [(2, 0.4), (2, 1.5), (3, 0.8)])
def test_gaussian_reports(people: int, shift: float, adjacency: str) -> None:
    random = np.random.default_rng(people)
    outputs, bins = (20, 100) if people == 2 else (9, 30)
    edges = np.linspace(-2 - shift, 2 + shift, outputs - 1)

    def means(_: History) -> Array:
        """Return what everybody adds noise to, newly drawn after every history; in some, the others stay at 0."""
        drawn = random.choice([-shift, 0.0, shift], p=[0.4, 0.2, 0.4], size=(60, people + 1))
        drawn[:10, 0], drawn[:10, 2:] = shift, 0
        drawn[:, 1] = 0 if adjacency == "zero-out" else -drawn[:, 0]
        return binned(drawn, edges)

    first, second = oracle.shuffled_distributions(oracle.play(people, outputs, means))
    away = 0.0 if adjacency == "zero-out" else -shift
    moves = shift - away
    lost = [(oracle.gaussian(2 * shift, q) + oracle.gaussian(moves, q)) / (2 * q) for q in SLACKS]
    largest = 0.0
    for ratio in (1.0, 1.1, 1.5):
        ratios = np.full(len(first), ratio)
        pair = pair_bounds(people, moves, lost, 2 * shift, ratio=ratio, bins=bins)
        for truth, centres in (
            (oracle.hockey_stick(first, second, ratios).max(), (shift, away)),
            (oracle.hockey_stick(second, first, ratios).max(), (away, shift)),
        ):
            centre = centre_bounds(people, centres, ratio, bins)
            assert truth <= min(*pair, *centre)
            largest = max(largest, truth / min(*pair, *centre))
    assert largest > 0.6  # coarse bins cost the rest


def batched(
    means: dict[History, Array], size: int, edges: Array, deviation: float, *, fixed: bool = False
) -> tuple[Array, Array]:
    """Return the distributions of the binned noisy sums of batches of this size, in both worlds, over all orders.

    Where `fixed`, only the order of the batches is random: people stay with their neighbours.
    """
    people = len(means[()]) - 1
    steps, outputs = people // size, len(edges) + 1
    everybody = tuple(range(people))

    def orders(left: tuple[int, ...]) -> list[tuple[tuple[int, ...], ...]]:
        chosen = [left[i : i + size] for i in range(0, len(left), size)] if fixed else combinations(left, size)
        return [(c, *rest) for c in chosen for rest in orders(tuple(x for x in left if x not in c))] if left else [()]

    every = orders(everybody)
    distributions = np.zeros((2, *(outputs,) * steps))
    for world in (0, 1):
        for order in every:
            for history in oracle.histories(steps, outputs):
                if len(history) < steps - 1:
                    continue
                probability = 1 / len(every)
                for step, batch in enumerate(order):
                    given = means[history[:step]]
                    total = sum(given[world if person == 0 else person + 1] for person in batch)
                    distribution = binned(np.array(total), edges, deviation)
                    if step < steps - 1:
                        probability *= distribution[history[step]]
                distributions[(world, *history)] += probability * distribution
    return distributions[0].ravel(), distributions[1].ravel()


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", ["replace", "zero-out"])
@pytest.mark.parametrize("deviation", [0.8, 3.0])
def test_batches(deviation: float, adjacency: str) -> None:
    # Four slots, one of them empty, two batches of two; the gradients of the second depend on the first sum.
    random = np.random.default_rng(7)
    size, slots, edges = 2, 4, np.linspace(-2 - 2 * deviation, 2 + 2 * deviation, 15)
    shift = 1 / deviation
    for _ in range(3):
        means = {h: random.choice([-1.0, 1.0], size=slots + 1) for h in oracle.histories(2, len(edges) + 1)}
        for drawn in means.values():
            drawn[1] = 0 if adjacency == "zero-out" else -drawn[0]
            drawn[-1] = 0
        first, second = batched(means, size, edges, deviation)
        for ratio in (1.0, 1.2):
            truth = max(
                oracle.hockey_stick(a[None], b[None], np.array([ratio]))[0]
                for a, b in ((first, second), (second, first))
            )
            whole, one = 2 * size * shift, (1 if adjacency == "zero-out" else 2) * shift
            rest = whole - shift if adjacency == "zero-out" else whole
            lost = [(oracle.gaussian(whole, q) + oracle.gaussian(rest, q)) / (2 * q) for q in SLACKS]
            assert truth <= min(pair_bounds(slots // size, one, lost, whole, ratio=ratio, bins=80))
            slot = shift * math.sqrt(size)
            far, near = 2 * slot, one * math.sqrt(size)
            lost = [(oracle.gaussian(far, q) + oracle.gaussian(near, q)) / (2 * q) for q in SLACKS]
            assert truth <= min(pair_bounds(slots, near, lost, far, ratio=ratio, bins=12))


def test_batches_need_the_whole_batch_in_the_slack() -> None:
    # Two batches of twelve. The victim's neighbours pull one way and the other batch the other way, so it is seen.
    size, deviation, ratio = 12, 4.0, 1.0
    edges = np.array([-11.0, 0.0])
    drawn = np.array([1.0, -1.0, *[-1.0] * (size - 1), *[1.0] * size])
    means = dict.fromkeys(oracle.histories(2, 3), drawn)
    first, second = batched(means, size, edges, deviation, fixed=True)
    truth = oracle.hockey_stick(first[None], second[None], np.array([ratio]))[0]
    record, whole = 2 / deviation, 2 * size / deviation
    wrong = [oracle.gaussian(record, q) / q for q in SLACKS]
    right = [oracle.gaussian(whole, q) / q for q in SLACKS]
    assert truth > 1.05 * pair_bounds(2, record, wrong, record, ratio=ratio, bins=200)[0]
    assert truth <= min(pair_bounds(2, record, right, whole, ratio=ratio, bins=200))


@pytest.mark.parametrize("shift", [0.3, 1.0, 2.5])
def test_bins_dominate_the_gaussian(shift: float) -> None:
    excess = []
    for bins in (6, 12, 100):
        triple = oracle.gaussian_triple(shift, bins)[0]
        assert triple.sum(axis=1) == pytest.approx(1, abs=1e-12)
        epsilons = np.linspace(-3, 3, 61) * shift
        bound = oracle.hockey_stick(triple[0], triple[1], np.exp(epsilons))
        truth = np.array([oracle.gaussian(shift, math.exp(epsilon)) for epsilon in epsilons])
        assert np.all(bound >= truth - ROUNDING)
        excess.append(float(np.max(bound - truth)))
    assert excess[2] < excess[1] < excess[0]
    assert excess[2] < 2e-3


def test_opposite_ends_are_the_worst_for_the_centre() -> None:
    # E(W − t)₊ for N(g₀), N(g₁) over N(0) grows with |g₀|, |g₁| and the angle: all g in a disc, by a grid.
    random = np.random.default_rng(5)
    axis, step = np.linspace(-8, 8, 321, retstep=True)
    weights = norm.pdf(axis)[:, None] * norm.pdf(axis)[None, :] * step**2
    for shift, ratio, level in ((1.0, 1.0, 0.5), (1.0, 1.4, -1.0), (0.5, 1.1, 0.0)):

        def mean(zero: Array, one: Array, ratio: float = ratio, level: float = level) -> float:
            tilts = [np.exp(g[0] * axis[:, None] + g[1] * axis[None, :] - g @ g / 2) for g in (zero, one)]
            return float((weights * np.maximum(tilts[0] - ratio * tilts[1] - level, 0)).sum())

        worst = mean(np.array([shift, 0.0]), np.array([-shift, 0.0]))
        for _ in range(8):
            radius, angle = shift * random.uniform(0.5, 1, 2), random.uniform(0, 2 * math.pi, 2)
            assert mean(*(r * np.array([math.cos(a), math.sin(a)]) for r, a in zip(radius, angle, strict=True))) < worst
