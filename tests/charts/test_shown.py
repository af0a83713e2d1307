"""Every public result has a picture, a data frame, and both in a notebook; what people have named is escaped."""

import inspect
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable
from datetime import date
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

import shoal
import shoal.collect
import shoal.sgd
from shoal.auditing import Audit
from shoal.calibration import Calibration, Spending, Stretch
from shoal.catalogue import Theorem
from shoal.charts import Axis, Chart
from shoal.charts.label_positions import Box
from shoal.charts.svg_writer import laid_out
from shoal.collect import Result, Tally, Task
from shoal.composition.budget import Budget
from shoal.curve import BoundTable, Comparison
from shoal.estimation.distribution_estimate import LevelEstimate, MeanEstimate, MixEstimate, TreeEstimate
from shoal.estimation.estimate import Estimate
from shoal.files.names import Names
from shoal.lower_limit import LowerBound
from shoal.mechanisms import Categorical
from shoal.mechanisms.mechanism import Counts
from shoal.planning.heavy_hitter_plan import HeavyHitterPlan
from shoal.planning.heavy_hitters import HeavyHitters
from shoal.planning.plan import Choice
from shoal.planning.simulation import Trials, run_trials
from shoal.shown import Shown
from shoal.sweeps import Table

_HARM = "<script>alert(1)</script>"
_RUN = shoal.sgd.Run(examples=6_000, batch_size=60, noise_multiplier=2, adjacency="zero-out")


@cache
def _curve() -> shoal.PrivacyCurve:
    return shoal.amplify(local_epsilon=1, reports=10_000)


@cache
def _plan() -> shoal.Plan:
    return shoal.plan(categories=10, reports=1_000, epsilon=1)


def _estimate() -> Estimate:
    mechanism = shoal.RandomizedResponse(categories=30, local_epsilon=2)
    values = np.repeat(np.arange(30), np.arange(30))
    return mechanism.estimate(mechanism.aggregate(mechanism.randomize(values, simulation=shoal.Simulation(seed=1))))


def _mean() -> MeanEstimate:
    mechanism = shoal.Laplace(local_epsilon=2, lower=0, upper=120)
    return mechanism.estimate(
        mechanism.aggregate(mechanism.randomize([30.0] * 50, simulation=shoal.Simulation(seed=3)))
    )


def _tree() -> TreeEstimate:
    tree = shoal.plan_quantiles(reports=1_000, epsilon=1, lower=0, upper=120, leaves=100)
    counts = tree.aggregate(tree.randomize(np.linspace(0, 100, 1_000), simulation=shoal.mechanisms.Simulation(seed=1)))
    return tree.estimate(tree.released(counts, simulation=shoal.mechanisms.Simulation(seed=2)))


def _levels() -> LevelEstimate:
    levels = shoal.plan_sum(reports=1_000, epsilon=1, lower=0, upper=120)
    coins = shoal.Simulation(seed=1)
    counts = levels.aggregate(levels.randomize(np.linspace(0, 90, 1_000), simulation=coins))
    return levels.estimate(levels.released(counts, simulation=coins))


def _mixed() -> MixEstimate:
    split = shoal.SplitAndMix.fitted(epsilon=1, delta=1e-6, honest=1_000, people=1_000)
    sums = split.total(split.randomize(np.linspace(0, 1, 1_000), simulation=shoal.Simulation(seed=1)))
    return split.estimate(sums, reports=1_000)


def _hitters() -> HeavyHitters:
    words = ["red"] * 6_000 + ["green"] * 3_000 + [_HARM[:5]] * 1_000
    return shoal.heavy_hitters(words, epsilon=1, bits=40, simulation=shoal.Simulation(seed=1))


def _ledger() -> shoal.Ledger:
    ledger = shoal.Ledger()
    for label in ("monday", _HARM, "wednesday"):
        with ledger.budget(_curve(), epsilon=0.5, delta=1e-6, label=label):
            pass
    return ledger


def _trials() -> Trials:
    mechanism = shoal.RandomizedResponse(categories=3, local_epsilon=2)
    return run_trials(mechanism, np.array([5, 3, 2]), trials=2, seed=1)


def _spending() -> Spending:
    return Spending((Stretch(_curve(), 3, date(2026, 1, 1)),), 1e-6, Budget(0.2, 1e-6, planned=True))


def _key() -> bytes:
    return X25519PrivateKey.generate().public_key().public_bytes_raw()


def _result() -> Result:
    mechanism: Categorical = shoal.RandomizedResponse(categories=3, local_epsilon=2)
    counts = mechanism.aggregate([0] * 60 + [1] * 40 + [2] * 20)
    names = Names.labelled([_HARM, "green & blue", '"'])
    task = Task(
        question=_HARM, mechanism=mechanism, names=names, delta=1e-6, epsilon_limit=2.0, minimum=100, malicious=0,
        round_seconds=60, too_small="discard", replay_rounds=2, analyst_key=_key(), shuffler_key=_key(),
    )  # fmt: skip
    return Result.of(task, Tally(round=1, counts=counts, undecryptable=0, malformed=0, duplicate=0))


_MAKERS: dict[type, Callable[[], Any]] = {
    Audit: lambda: shoal.audit(shoal.RandomizedResponse(categories=3, local_epsilon=1), trials=2_000),
    BoundTable: lambda: shoal.compare(local_epsilon=1, reports=10_000, delta=1e-6),
    Calibration: lambda: shoal.calibrate(epsilon=1, delta=1e-6, reports=10_000),
    shoal.Certificate: lambda: _curve().certify(delta=1e-6),
    Choice: lambda: _plan().best,
    Comparison: lambda: shoal.compare(local_epsilon=1, reports=10_000, delta=1e-6)[-1],
    Estimate: _estimate,
    HeavyHitters: _hitters,
    shoal.Ledger: _ledger,
    LevelEstimate: _levels,
    TreeEstimate: _tree,
    LowerBound: lambda: _curve().lower,
    MeanEstimate: _mean,
    MixEstimate: _mixed,
    shoal.Plan: _plan,
    shoal.PrivacyCurve: _curve,
    Table: lambda: shoal.sweep(local_epsilon=[0.5, 1, 2], reports=[1e3, 1e4, 1e5, 1e6]),
    shoal.sgd.Guarantee: lambda: shoal.sgd.guarantee(_RUN, delta=1e-6),
    shoal.sgd.PoissonComparison: lambda: shoal.sgd.poisson_comparison(_RUN, delta=1e-6),
    shoal.sgd.SamplerTable: lambda: shoal.sgd.compare_samplers(_RUN, delta=1e-6),
    Result: _result,
    Spending: _spending,
    Trials: _trials,
}
_NO_RESULTS = {
    # What is asked, what is run, and what is kept between: descriptions, not answers.
    Counts,
    HeavyHitterPlan,
    Theorem,
    shoal.collect.DummyRounds,
    shoal.collect.HeavyHitterRounds,
    shoal.collect.Receipt,
    shoal.collect.RoundKind,
    shoal.collect.Tally,
    shoal.collect.Task,
    shoal.sgd.Account,
    shoal.sgd.Filter,
    shoal.sgd.Run,
    shoal.sgd.LocalLogisticRegression,
    shoal.sgd.PrivateLogisticRegression,
}


def _public() -> set[type]:
    packages = (shoal, shoal.sgd, shoal.collect)
    named = (getattr(package, name) for package in packages for name in package.__all__)
    return {each for each in named if inspect.isclass(each)}


def test_every_public_result_is_here() -> None:
    shown = {each for each in _public() if issubclass(each, Shown) or hasattr(each, "_repr_html_")} - {Theorem}
    assert shown <= _MAKERS.keys()
    facts = {each for each in _public() if hasattr(each, "to_dict") and not hasattr(each, "local_epsilon")}
    randomizers = {each for each in facts if hasattr(each, "randomize")}
    assert facts - shown - randomizers <= _NO_RESULTS


@cache
def _made(kind: type) -> Any:
    return _MAKERS[kind]()


@pytest.mark.slow
@pytest.mark.parametrize("kind", _MAKERS, ids=lambda kind: kind.__name__)
def test_every_result_shows_itself(kind: type) -> None:
    result: Any = _made(kind)
    assert type(result).__name__ == kind.__name__
    html: str = result._repr_html_()
    root = ET.fromstring(html)  # it is valid XML as it is
    assert {element.tag.rpartition("}")[2] for element in root.iter()} <= {
        *("div", "p", "table", "tr", "th", "td", "svg", "title", "desc", "style", "rect", "path", "text", "circle")
    }
    (svg,) = root.findall("{http://www.w3.org/2000/svg}svg")
    assert svg.get("role") == "img"
    assert len(root.findall("table/tr")) >= 2
    assert len(html) < 100_000
    frame = result.to_frame()
    assert len(frame) >= 1
    assert len(frame.columns) >= 2


@pytest.mark.slow
@pytest.mark.parametrize("kind", _MAKERS, ids=lambda kind: kind.__name__)
def test_every_result_has_a_picture_with_numbers_and_free_labels(kind: type) -> None:
    result = _made(kind)
    chart = result.chart()
    assert isinstance(chart, Chart)
    assert chart.title
    assert chart.description
    layout = laid_out(chart)
    texts = [text for text in layout.texts if not text.turned]
    assert any(re.search(r"\d", text.text) for text in texts)
    for index, one in enumerate(texts):
        assert one.box.inside(Box(0, 0, chart.width, layout.height))
        assert not any(one.box.overlaps(two.box) for two in texts[index + 1 :])
    axes = result.plot()
    assert axes.get_title("left")
    other = axes.figure.add_subplot()
    assert result.plot(other) is other


@pytest.mark.slow
def test_names_that_people_gave_are_escaped() -> None:
    for kind in (shoal.Ledger, Result):
        html = _made(kind)._repr_html_()
        assert "<script" not in html
        assert "&lt;script&gt;" in html


@pytest.mark.slow
def test_guarantees_in_a_notebook_are_rounded_up_and_limits_down() -> None:
    curve = _curve()
    cells = re.findall(r"<td>([^<]*)</td>", curve._repr_html_())
    for delta, epsilon in zip(cells[::2], cells[1::2], strict=True):
        assert float(epsilon) >= curve.epsilon(float(delta))
    assert curve.lower is not None
    cells = re.findall(r"<td>([^<]*)</td>", curve.lower._repr_html_())
    for delta, limit in zip(cells[::2], cells[1::2], strict=True):
        assert float(limit.removeprefix("≥ ")) <= curve.lower.epsilon(float(delta))


@pytest.mark.slow
def test_a_comparison_of_bounds_is_still_a_sequence() -> None:
    table = shoal.compare(local_epsilon=1, reports=10_000, delta=1e-6)
    assert len(table) == len(list(table)) == 12
    assert table[0].bound == "swap-chains"
    assert [curve.bound for curve in table[1:3]] == ["strong-clones", "clones"]
    assert table[-1] in table
    frame = table.to_frame()
    assert frame["epsilon"].tolist() == sorted(curve.epsilon(1e-6) for curve in table)
    assert frame["proven"].tolist() == [curve.proven for curve in table]


@pytest.mark.slow
def test_results_at_the_edges_show_themselves() -> None:
    """ε₀ = 0, one report, δ out of range of a closed form, an empty ledger, infinite alternatives."""
    for result in (
        shoal.amplify(local_epsilon=0, reports=10),
        shoal.amplify(local_epsilon=1, reports=1),
        shoal.amplify(local_epsilon=30, reports=10),
        shoal.amplify(local_epsilon=1, local_delta=1e-10, reports=1_000),
        shoal.amplify(shoal.Gaussian(sigma=2.0), reports=1_000),
        shoal.amplify(local_epsilon=0.5, reports=1_000, bound="clones-closed-form"),
        _curve().repeated(3),
        shoal.compare(local_epsilon=0, reports=10, delta=1e-6),
        shoal.Ledger(),
        shoal.sgd.guarantee(shoal.sgd.Run(examples=100, noise_multiplier=0.5), delta=1e-6),
        shoal.sweep(local_epsilon=1, reports=10),
        shoal.calibrate(epsilon=1, delta=1e-6, reports=10_000, rounds=5),
    ):
        ET.fromstring(result._repr_html_())
        result.to_frame()


def test_every_drawing_is_of_a_result() -> None:
    from shoal.charts import drawings

    for name in drawings._DRAWINGS:
        module, _, kind = name.rpartition(".")
        assert issubclass(getattr(import_module(module), kind), Shown)


def test_a_result_of_another_package_has_a_drawing_of_its_own() -> None:
    from shoal.charts.drawings import draws

    class Answer(Shown):
        def _columns(self) -> dict[str, list[float]]:
            return {"x": [1.0]}

    with pytest.raises(TypeError, match="Answer has no picture"):
        Answer().chart()
    draws(f"{__name__}.{Answer.__qualname__}")(lambda answer: Chart(Axis("x"), Axis("y"), "An answer"))
    assert Answer().chart().title == "An answer"
