"""CONTRIBUTING's recipe "add a mechanism", executed as it stands there, and a second toy for numbers."""

import inspect
import json
import math
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import shoal
from shoal.collect.counting import SealedRound
from shoal.collect.envelope import information, opened, plaintexts, seal
from shoal.collect.task import Task
from shoal.mechanisms import Simulation, mechanism_of
from shoal.mechanisms.mechanism import Counts
from shoal.pairs import registry
from shoal.pairs.registry import PlainRandomizer
from tests.cli.commands import facts_of, refused, run
from tests.collect.world import make_world
from tests.recipes.copied_package import CopiedPackage

_RECIPE = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text(encoding="utf-8").split("### Add a mechanism")[1]
SOURCE = (
    _RECIPE.split("```python\n")[1].split("```")[0]
    + '''

import math

from shoal.pairs.likelihoods import Likelihoods
from shoal.mechanisms.integer_noise import Grid, Noise
from shoal.mechanisms.mean import MeanMechanism


@register("four-cells", "one of four cells, the two in the middle for nothing")
@dataclass(frozen=True, kw_only=True, repr=False)
class FourCells(MeanMechanism):
    """The end of an interval, or half of the time nothing."""

    local_epsilon: float

    @property
    def _high(self):
        return int((1 << 63) / (1 + math.exp(-self.local_epsilon)) * (1 - 2**-40))

    @property
    def _log(self):
        return math.log(self._high / ((1 << 63) - self._high))

    @property
    def grid(self):
        return Grid(1, 1, 1)

    @property
    def noise(self):
        return Noise(self.grid, 64, (self._high, self._high + (1 << 62), self._high + (1 << 63)))

    @property
    def blanket(self):
        log, low = self._log, 0.5 - self._high / 2**64
        rows = ((log, 0.0, low), (0.0, log, low), (0.0, 0.0, 0.5))
        return (Likelihoods(rows, rest=0.5 - 2 * low),)

    @property
    def homogeneous(self):
        log, high = self._log, self._high / 2**64
        return (Likelihoods(((0.0, -log, high), (0.0, log, 0.5 - high), (0.0, 0.0, 0.5)), complete=True),)
'''
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Yield a folder with the one file, from which modules are imported; afterwards nothing of it is left."""
    place = tmp_path / "package"
    place.mkdir()
    (place / "two_toys.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(place)
    monkeypatch.chdir(tmp_path)
    before = dict(registry.REGISTRY)
    yield place
    registry.REGISTRY.clear()
    registry.REGISTRY.update(before)
    sys.modules.pop("two_toys", None)


@pytest.fixture
def toys(folder: Path) -> Any:
    import two_toys  # type: ignore[import-not-found]

    return two_toys


@pytest.mark.slow
def test_the_accountant_takes_it(toys: Any) -> None:
    made, known = (kind(categories=10, local_epsilon=2.0) for kind in (toys.MarkedResponse, shoal.RandomizedResponse))
    one, two = (shoal.amplify(each, reports=1000) for each in (made, known))
    assert one.bound == two.bound == "blanket"
    assert one.epsilon(1e-6) == pytest.approx(two.epsilon(1e-6), rel=1e-9)
    assert one.lower is not None and 0 < one.lower.epsilon(1e-6) <= one.epsilon(1e-6)
    assert shoal.compare(made, reports=1000, delta=1e-6)[0].bound == "blanket"
    answer = shoal.calibrate(made, epsilon=0.5, delta=1e-6, reports=1000)
    assert type(answer.randomizer) is toys.MarkedResponse and answer.epsilon <= 0.5
    number = toys.FourCells(local_epsilon=2.0, lower=0, upper=120)
    assert number.noise.holds(2.0)
    curve = shoal.amplify(number, reports=1000)
    assert curve.bound == "blanket"
    assert 0 < shoal.lower_bound(number, reports=1000).epsilon(1e-6) <= curve.epsilon(1e-6) < 2.0


@pytest.mark.slow
def test_it_runs(toys: Any) -> None:
    made = toys.MarkedResponse(categories=5, local_epsilon=3.0)
    people, coins = np.arange(50_000) % 4, Simulation(seed=1)
    estimate = made.estimate(made.aggregate(made.randomize(people, simulation=coins)))
    assert np.abs(estimate.frequencies - [0.25, 0.25, 0.25, 0.25, 0]).max() < 0.02
    assert shoal.audit(made, trials=20_000, simulation=coins).passed
    number = toys.FourCells(local_epsilon=2.0, lower=0, upper=120)
    mean = number.estimate(number.aggregate(number.randomize(np.full(50_000, 30.0), simulation=coins))).mean
    assert mean == pytest.approx(30, abs=3)
    audit = shoal.audit(number, trials=20_000, simulation=coins)
    assert audit.passed and audit.lower > 1.5


@pytest.mark.slow
def test_the_planner_tries_it(toys: Any) -> None:
    choices = shoal.plan(categories=3, reports=100, epsilon=1.0).choices
    (toy,) = (choice for choice in choices if type(choice.mechanism) is toys.MarkedResponse)
    (known,) = (choice for choice in choices if type(choice.mechanism) is shoal.RandomizedResponse)
    assert toy.error == pytest.approx(known.error, rel=1e-4)
    assert mechanism_of(toy.to_dict()["schema"]) == toy.mechanism


def test_the_recipe_names_what_register_takes() -> None:
    """Every keyword that the recipe gives to `register` is one that it has."""
    calls = re.findall(r"@register\((.*?)\)", _RECIPE.split("\n### ")[0], flags=re.DOTALL)
    given = {name for call in calls for name in re.findall(r"(\w+)=", call)}
    assert {"code", "planned"} <= given <= set(inspect.signature(registry.register).parameters)


def test_its_schema_comes_back(toys: Any) -> None:
    for made in (toys.MarkedResponse(categories=5, local_epsilon=1.0), toys.FourCells(local_epsilon=1.0)):
        schema = json.loads(json.dumps(made.to_dict()))
        assert schema["mechanism"] == made.name and schema["version"] == 1
        assert mechanism_of(schema) == made
        counts = made.aggregate(made.randomize([1, 0, 1]))
        assert Counts.from_bytes(counts.to_bytes()) == counts


@pytest.mark.slow
def test_a_task_seals_and_opens_its_reports(toys: Any, tmp_path: Path) -> None:
    made = toys.MarkedResponse(categories=4, local_epsilon=2.0)
    world = make_world(tmp_path, mechanism=made)
    task = Task.from_bytes(world.task.to_bytes())
    assert task.mechanism == made
    values = made.randomize(np.arange(8) % 4)
    sealed = [seal(task, 3, plain) for plain in plaintexts(task, values)]
    plain = opened(world.analyst_key, information(task, 3), sealed)
    assert all(content is not None and content[:2] == bytes([1, 200]) for content in plain)
    counts = SealedRound.of(task, 3, task.mechanism).count(world.analyst_key.private_bytes_raw(), b"".join(sealed))
    assert counts.valid == 8 and np.array_equal(counts.values, made.aggregate(values).values)
    with pytest.raises(shoal.ParameterError, match="FourCells"):
        replace(task, mechanism=toys.FourCells(local_epsilon=2.0))


@pytest.mark.slow
def test_a_ledger_keeps_it(toys: Any, tmp_path: Path) -> None:
    path = tmp_path / "ledger.json"
    for made in (toys.MarkedResponse(categories=5, local_epsilon=1.0), toys.FourCells(local_epsilon=1.0)):
        shoal.Ledger(path).record(shoal.amplify(made, reports=1000))
    backs = [curve for entry in shoal.Ledger(path) for curve, _ in entry.rounds]
    assert [type(back.randomizer) for back in backs] == [toys.MarkedResponse, toys.FourCells]
    assert backs[0].epsilon(1e-6) == shoal.amplify(backs[0].randomizer, reports=1000).epsilon(1e-6)


@pytest.mark.slow
def test_the_command_line_knows_it(toys: Any, capsys: pytest.CaptureFixture[str]) -> None:
    described = "--randomizer marked-response --categories 5 --local-epsilon 1 --reports 1000"
    facts = facts_of(capsys, f"amplify {described}")
    assert facts["bound"] == "blanket" and "MarkedResponse" in facts["randomizer"]
    assert facts_of(capsys, "amplify --randomizer four-cells --local-epsilon 1 --reports 1000")["bound"] == "blanket"
    assert "--categories" in refused(capsys, "amplify --randomizer marked-response --local-epsilon 1 --reports 10")
    assert "no --categories" in refused(capsys, f"amplify {described.replace('marked-response', 'four-cells')}")
    audit = "audit --local-epsilon 1 --trials 10000 --mechanism"
    assert facts_of(capsys, f"{audit} marked-response --categories 5")["passed"]
    assert facts_of(capsys, f"{audit} four-cells")["mechanism"]["mechanism"] == "four-cells"
    Path("data.csv").write_text("n\n" + "0\n1\n2\n" * 100)
    options = "--column n --categories 3 --mechanism marked-response --local-epsilon 2"
    facts_of(capsys, f"randomize data.csv {options} --output reports.shoal")
    assert facts_of(capsys, "estimate reports.shoal")["reports"] == 300
    assert run(capsys, "ledger record book.json --local-epsilon 1 --reports 9 --randomizer four-cells")[0] == 0


@pytest.mark.slow
def test_an_installed_package_is_imported_when_its_name_is_asked_for(
    folder: Path, capsys: pytest.CaptureFixture[str], request: pytest.FixtureRequest
) -> None:
    """Nobody imports it: an entry point names the module."""
    names = folder / "two_toys-1.0.dist-info"
    names.mkdir()
    (names / "METADATA").write_text("Metadata-Version: 2.1\nName: two-toys\nVersion: 1.0\n")
    (names / "entry_points.txt").write_text("[shoal.mechanisms]\ntwo_toys = two_toys\n")
    registry.import_installed.cache_clear()
    request.addfinalizer(registry.import_installed.cache_clear)
    assert "marked-response" not in registry.REGISTRY
    facts = facts_of(capsys, "amplify --randomizer marked-response --categories 5 --local-epsilon 1 --reports 1000")
    assert "MarkedResponse" in facts["randomizer"]


@pytest.mark.slow
def test_one_file_in_the_folder_is_enough(tmp_path: Path) -> None:
    package = CopiedPackage(tmp_path)
    package.add("mechanisms/two_toys.py", SOURCE)
    assert package.touched == ["mechanisms/two_toys.py"]
    names = package.answers("import json; from shoal.mechanisms import kinds; print(json.dumps(list(kinds())))")
    assert {"marked-response", "four-cells", "rappor"} <= set(names)


@dataclass(frozen=True)
class Coin:
    """Somebody else's randomizer, which derives from nothing: a coin that tells the truth three times out of four."""

    local_epsilon: float = math.log(3)
    blanket: tuple[shoal.Likelihoods, ...] = field(
        default=(shoal.Likelihoods(((math.log(3), 0.0, 0.25), (0.0, math.log(3), 0.25)), rest=0.5),), repr=False
    )
    homogeneous: tuple[shoal.Likelihoods, ...] = field(
        default=(shoal.Likelihoods(((0.0, -math.log(3), 0.75), (0.0, math.log(3), 0.25)), complete=True),), repr=False
    )

    def randomize(self, values: Any, *, simulation: Any = None) -> Any:
        lies = np.random.default_rng(7).random(len(values)) < 0.25
        return np.asarray(values) ^ lies


@pytest.mark.slow
def test_somebody_elses_randomizer_needs_three_members(tmp_path: Path) -> None:
    coin, known = Coin(), shoal.RandomizedResponse(categories=2, local_epsilon=math.log(3))
    assert isinstance(coin, shoal.Randomizer) and isinstance(known, shoal.Randomizer)
    curve, house = (shoal.amplify(each, reports=500, bound="blanket") for each in (coin, known))
    assert curve.epsilon(1e-6) == pytest.approx(house.epsilon(1e-6), rel=1e-9)
    bounds = [row.bound for row in shoal.compare(coin, reports=500, delta=1e-6)]
    assert {"blanket", "strong-clones"} <= set(bounds[:3])  # swap-chains is no better here
    assert not {"cheu", "decomposition"} & set(bounds)  # it does not say that it is randomized response
    lower = shoal.lower_bound(coin, reports=500).epsilon(1e-6)
    assert 0 < lower <= curve.epsilon(1e-6)
    path = tmp_path / "ledger.json"
    shoal.Ledger(path).record(curve, rounds=3)
    ((back, times),) = next(iter(shoal.Ledger(path))).rounds
    assert times == 3 and back.randomizer == PlainRandomizer.of(coin)
    assert back.epsilon(1e-6) == curve.epsilon(1e-6)
    assert shoal.audit(coin, trials=20_000).passed


@pytest.mark.slow
def test_rounds_of_a_randomizer_without_a_hash_are_composed_and_recorded() -> None:
    rows: Any = [[math.log(3), 0.0, 0.25], [0.0, math.log(3), 0.25]]  # lists, as JSON has them
    coin = SimpleNamespace(local_epsilon=math.log(3), blanket=[shoal.Likelihoods(rows, rest=0.5)], homogeneous=[])
    curve, expected = (shoal.amplify(each, reports=500, bound="blanket") for each in (coin, Coin()))
    assert curve.repeated(2).epsilon(1e-6) == shoal.compose([curve, curve]).epsilon(1e-6)
    assert curve.repeated(2).epsilon(1e-6) == expected.repeated(2).epsilon(1e-6)
    ledger = shoal.Ledger()
    ledger.record(curve, rounds=2)
    assert ledger.spent(1e-6) == curve.repeated(2).epsilon(1e-6)


@pytest.mark.parametrize(
    ("rows", "complaint"),
    [
        (((1.2, 0.0, 0.25), (0.0, 1.2, 0.25)), "differ by at most local_epsilon"),
        (((0.5, -0.5, 0.5), (-0.5, 0.5, 0.5)), "at least 0"),
        (((math.log(3), 0.0, 0.25), (0.0, math.log(3), 0.2)), "add up to 1"),
        (((math.log(3), 0.0, 0.2), (0.0, math.log(3), 0.2)), "each report that an input may have"),
        (((math.nan, 0.0, 0.25), (0.0, math.log(3), 0.25)), "local_epsilon|add up"),
    ],
)
def test_likelihoods_that_cannot_be_are_refused(rows: Any, complaint: str) -> None:
    """They would give a δ that is too small."""
    wrong = Coin(blanket=(shoal.Likelihoods(rows),))
    with pytest.raises(shoal.ParameterError, match=complaint):
        shoal.amplify(wrong, reports=100)


@pytest.mark.parametrize(
    "claim",
    [{"rest": 0.0}, {"complete": True}, {"rest": 0.9}, {"rest": -0.1}, {"rest": math.nan}, {"rest": 0.5 - 1e-10}],
)
def test_probabilities_of_a_blanket_that_do_not_add_up_are_refused(claim: Any) -> None:
    """What the probabilities leave of one is what others report besides; with less of it, δ of few reports is less."""
    rows = ((math.log(3), 0.0, 0.25), (0.0, math.log(3), 0.25))
    for reports in (2, 1000):
        with pytest.raises(shoal.ParameterError, match="rest must add up to 1"):
            shoal.amplify(Coin(blanket=(shoal.Likelihoods(rows, **claim),)), reports=reports).epsilon(1e-6)
    assert shoal.amplify(Coin(blanket=(shoal.Likelihoods(rows),)), reports=2).epsilon(1e-6) > 1.0986


@pytest.mark.parametrize("bound", ["tightest", "strong-clones", "clones-closed-form"])
@pytest.mark.parametrize("hidden", ["blanket", "homogeneous"])
def test_likelihoods_beyond_epsilon_are_refused_whichever_bound_is_asked_for(bound: str, hidden: str) -> None:
    """At ε₀ = 0.1 the strong clones would give 0.0145, where one of its own datasets reaches 0.21."""
    wrong = Coin(local_epsilon=0.1, blanket=()) if hidden == "blanket" else Coin(local_epsilon=0.1, homogeneous=())
    with pytest.raises(shoal.ParameterError, match="differ by at most local_epsilon"):
        shoal.amplify(wrong, reports=500, bound=bound).epsilon(1e-6)
    with pytest.raises(shoal.ParameterError, match="differ by at most local_epsilon"):
        PlainRandomizer.of(wrong)


def test_a_member_that_fails_is_not_taken_for_one_that_is_not_there() -> None:
    """Its default would be the δ₀ of another randomizer, which is 0."""

    class Mistaken(Coin):
        @property
        def local_delta(self) -> float:
            return self.misspelled  # type: ignore[attr-defined, no-any-return]

    with pytest.raises(AttributeError, match="misspelled"):
        shoal.amplify(Mistaken(), reports=500)


def test_a_decomposition_with_a_smaller_epsilon_than_its_randomizer_is_refused() -> None:
    """From its ε₀ on, δ would be 0."""

    @dataclass(frozen=True)
    class Decomposed(Coin):
        blanket: tuple[shoal.Likelihoods, ...] = ()
        homogeneous: tuple[shoal.Likelihoods, ...] = ()
        decomposition: shoal.Decomposition = field(
            default=shoal.Decomposition(blanket_probability=0.05, own_probability=0.4, local_epsilon=0.1)
        )

    for bound in ("tightest", "decomposition", "decomposition-closed-form"):
        with pytest.raises(shoal.ParameterError, match=r"has local_epsilon=0\.1, and the randomizer has 1\.09"):
            shoal.amplify(Decomposed(), reports=10**6, bound=bound)
    assert shoal.amplify(Decomposed(local_epsilon=0.1), reports=10, bound="decomposition").epsilon(1e-6) == 0.1


def test_a_ratio_that_rounding_has_put_above_epsilon_is_kept() -> None:
    """No δ is 0 while the likelihoods say otherwise, if only by the last digit."""
    log = math.nextafter(math.log(3), 2)
    coin = Coin(blanket=(shoal.Likelihoods(((log, 0.0, 0.25), (0.0, log, 0.25)), rest=0.5),))
    assert shoal.amplify(coin, reports=1).epsilon(0.0) == log > coin.local_epsilon


def test_an_approximate_randomizer_gets_bounds_for_approximate_dp_only() -> None:
    @dataclass(frozen=True)
    class Approximate(Coin):
        local_delta: float = 1e-12

    curve, plain = (
        shoal.amplify(Approximate(), reports=500),
        shoal.amplify(local_epsilon=math.log(3), local_delta=1e-12, reports=500),
    )
    assert curve.bound == "strong-clones" and curve.local_delta == 1e-12
    assert curve.epsilon(1e-6) == plain.epsilon(1e-6)


@pytest.mark.parametrize("other", [7, "rr", shoal.RandomizedResponse, object(), Simulation(seed=1)])
def test_what_is_no_randomizer_is_refused(other: Any) -> None:
    for question in (shoal.amplify, shoal.lower_bound):
        with pytest.raises(shoal.ParameterError, match=r"local_epsilon, blanket and homogeneous"):
            question(other, reports=10)
