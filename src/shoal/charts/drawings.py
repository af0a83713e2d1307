"""How results look: the function that draws each type of result, found by the name of the type.

A result imports no charts and nothing here imports results, so drawing one loads no others. A type of another package
registers its drawing under its full name, ``@draws("package.module.Type")``, or has a method `chart` of its own.
"""

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from shoal.charts.scale import Axis
from shoal.charts.svg_chart import Chart
from shoal.checks import probability
from shoal.digits import exactly, number_text, rounded_down, rounded_up
from shoal.progress import progress
from shoal.shown import Shown

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from shoal.auditing import Audit
    from shoal.calibration import Calibration, Spending
    from shoal.collect import Result
    from shoal.composition.ledger import Ledger
    from shoal.curve import BoundTable, Comparison, PrivacyCurve
    from shoal.estimation.distribution_estimate import (
        DistributionEstimate,
        LevelEstimate,
        MeanEstimate,
        Measured,
        MixEstimate,
        TreeEstimate,
    )
    from shoal.estimation.estimate import Estimate
    from shoal.lower_limit import LowerBound
    from shoal.planning.error_curves import ErrorCurves
    from shoal.planning.heavy_hitters import HeavyHitters
    from shoal.planning.plan import Choice, Plan
    from shoal.planning.simulation import Trials
    from shoal.proofs.certificate import Certificate
    from shoal.sgd import Guarantee, PoissonComparison, SamplerTable
    from shoal.sweeps import Table

_DRAWINGS: dict[str, Callable[..., Chart]] = {}
Drawing = TypeVar("Drawing", bound=Callable[..., Chart])


def draws(name: str) -> Callable[[Drawing], Drawing]:
    """Register a function that draws the results of a type, and of types derived from it."""

    def register(drawing: Drawing) -> Drawing:
        _DRAWINGS[name] = drawing
        return drawing

    return register


def drawn(result: Shown, **options: object) -> Chart:
    """Return the chart of a result."""
    names = [f"{kind.__module__}.{kind.__qualname__}" for kind in type(result).__mro__]
    drawing = next((_DRAWINGS[name] for name in names if name in _DRAWINGS), None)
    if drawing is None:
        raise TypeError(f"{names[0]} has no picture; register a function with shoal.charts.drawings.draws")
    return drawing(result, **options)


# Curves: ε against δ

_MANY = 41
"""How many points a line has in a picture that was asked for."""
_FAR = 100.0
"""ε₀ is left out where it is this much above the guarantee and would squash the lines."""


class _EpsilonLine(NamedTuple):
    """A line of ε against δ: its label, its kind, and its ε at a δ, NaN where there is none."""

    label: str
    kind: str
    epsilon: Callable[[float], float]


def _guaranteed(epsilon: float) -> str:
    return f"ε = {rounded_up(epsilon)}"


def _deltas_around(delta: float, points: int) -> list[float]:
    """Return the δ that are drawn: from 1e-12 to 1e-2, or to where `delta` is seen."""
    low = math.log(max(min(1e-12, delta / 100), 1e-300))
    high = math.log(max(1e-2, delta))
    return [math.exp(low + (high - low) * index / (points - 1)) for index in range(points)]


def _epsilon_chart(
    title: str,
    lines: Sequence[_EpsilonLine],
    *,
    delta: float,
    local_epsilon: float,
    points: int,
    words: Callable[[float], str] = _guaranteed,
) -> Chart:
    """Return ε against δ, with a mark on the first line at `delta` that has its ε in `words`."""
    deltas = _deltas_around(delta, points)
    asked = (line.epsilon(value) for line in lines for value in deltas)
    answers = list(progress(asked, total=len(lines) * points, label="picture"))
    heights = [answers[start : start + points] for start in range(0, len(answers), points)]
    marked = lines[0].epsilon(delta)
    number = "" if math.isnan(marked) else words(marked)
    said = f"{number} at δ = {number_text(delta)}" if number else f"there is no ε at δ = {number_text(delta)}"
    names = ", ".join(line.label for line in lines)
    scale = "log" if any(height > 0 for row in heights for height in row) else "linear"
    chart = Chart(Axis("δ", "log"), Axis("central ε", scale), title, f"ε against δ of {names}; {said}.")
    for line, row in zip(lines, heights, strict=True):
        chart.line(deltas, row, line.label, line.kind)
    shown = max([height for height in (heights[0][0], marked) if height > 0], default=math.inf)
    if 0 < local_epsilon < math.inf and local_epsilon <= _FAR * shown:
        chart.level(local_epsilon, f"one report alone: ε₀ = {local_epsilon:g}")
    if number:
        chart.mark(delta, marked, number)
    return chart


def _line(curve: "PrivacyCurve | Comparison") -> _EpsilonLine:
    if curve.proven:
        return _EpsilonLine(curve.bound, "series", curve._epsilon_or_nan)
    return _EpsilonLine(f"{curve.bound} (no guarantee)", "comparison", curve._epsilon_or_nan)


@draws("shoal.curve.PrivacyCurve")
def _curve(
    curve: "PrivacyCurve",
    *,
    others: "Sequence[PrivacyCurve | Comparison]" = (),
    delta: float = 1e-6,
    points: int = _MANY,
) -> Chart:
    delta = probability(delta=delta)
    lines = [_line(curve)._replace(kind="guarantee"), *map(_line, others)]
    if (lower := curve.lower) is not None:
        lines.append(_EpsilonLine("best possible", "limit", lower.epsilon))
    return _epsilon_chart(curve._title, lines, delta=delta, local_epsilon=curve.local_epsilon, points=points)


@draws("shoal.curve.Comparison")
def _comparison(curve: "Comparison", *, delta: float = 1e-6, points: int = _MANY) -> Chart:
    return _epsilon_chart(
        f"No guarantee: {curve._title}",
        [_line(curve)],
        delta=probability(delta=delta),
        local_epsilon=curve.local_epsilon,
        points=points,
        words="{:.6g}".format,
    )


@draws("shoal.lower_limit.LowerBound")
def _lower_bound(bound: "LowerBound", *, delta: float = 1e-6, points: int = _MANY) -> Chart:
    return _epsilon_chart(
        f"What no bound can beat: {bound.reports:,} shuffled reports",
        [_EpsilonLine("best possible", "limit", bound.epsilon)],
        delta=delta,
        local_epsilon=bound.local_epsilon,
        points=points,
        words=lambda epsilon: f"ε ≥ {rounded_down(epsilon)}",
    )


@draws("shoal.curve.BoundTable")
def _bound_table(table: "BoundTable") -> Chart:
    epsilons = [float(curve.epsilon(table.delta)) for curve in table]
    at = f"δ = {number_text(table.delta)}"
    texts = [curve._text(table.delta, 4) + ("" if curve.proven else "  no guarantee") for curve in table]
    chart = Chart(
        Axis(f"central ε at {at}", "log" if any(epsilon > 0 for epsilon in epsilons) else "linear"),
        Axis("", names=tuple(curve.bound for curve in table)),
        f"Every bound that applies: {table[0]._title}" if table else "No bounds",
        f"ε at {at} by each bound, the smallest first: "
        + ", ".join(f"{curve.bound} {text}" for curve, text in zip(table, texts, strict=True)),
    )
    chart.bars(epsilons, texts=texts, kind=["guarantee" if curve.proven else "comparison" for curve in table])
    if table._lower is not None and (limit := table._lower.epsilon(table.delta)) > 0:
        chart.level(limit, f"no bound is below {rounded_down(limit, 4)}", "limit")
    local = table[0].local_epsilon if table else math.inf
    if 0 < local < math.inf:
        chart.level(local, f"one report alone: ε₀ = {local:g}")
    return chart


# Proofs and audits

_ALARMS = 100
"""How many points the line of a certificate has."""


@draws("shoal.proofs.certificate.Certificate")
def _certificate(certificate: "Certificate") -> Chart:
    """Draw what is proved of any attacker: the share of right alarms, at most, against the share of false ones."""
    exp_eps = math.exp(min(certificate.epsilon, 700.0))
    alarms = [(index / _ALARMS) ** 2 for index in range(_ALARMS + 1)]
    hits = [
        min(1.0, exp_eps * share + certificate.delta, 1 - (1 - share - certificate.delta) / exp_eps) for share in alarms
    ]
    one = _ALARMS // 10
    said = f"at 1 % false alarms at most {rounded_up(min(100 * hits[one] * (1 + 1e-12), 100.0), 4)} % right ones"
    chart = Chart(
        Axis("false alarms", low=0, high=1),
        Axis("right alarms", low=0, high=1),
        "What is proved of anybody who guesses which of two neighbouring datasets it is",
        f"The right alarms of an attacker, at most, against the false ones; {said}.",
        note=f"ε = {rounded_up(certificate.epsilon)}, δ = {number_text(certificate.delta)}",
        width=520.0,
        height=420.0,
    )
    chart.band(alarms, alarms, hits, kind="guarantee")
    chart.line(alarms, alarms, "a coin", "local")
    chart.line(alarms, hits, "at most", "guarantee")
    chart.mark(alarms[one], hits[one], said)
    return chart


@draws("shoal.auditing.Audit")
def _audit(audit: "Audit") -> Chart:
    texts = [f"at least {rounded_down(audit.lower)}", rounded_up(audit.claimed)]
    verdict = "the runs do not contradict the claim" if audit.passed else "the claim is refuted"
    chart = Chart(
        Axis(audit.symbol),
        Axis("", names=("shown by the runs", "claimed")),
        f"An audit of {type(audit.mechanism).__name__}: {verdict}",
        "; ".join(texts),
        note=f"{audit.trials:,} runs with each input, confidence {audit.confidence:.12g}",
    )
    chart.bars([audit.lower, audit.claimed], texts=texts, kind=["guarantee" if audit.passed else "budget", "local"])
    return chart


# Rounds and budgets

_LEDGER_POINTS = 8


@draws("shoal.composition.ledger.Ledger")
def _ledger(ledger: "Ledger") -> Chart:
    total = len(ledger)
    counts = sorted({round(total * index / _LEDGER_POINTS) for index in range(_LEDGER_POINTS + 1)})
    heights = ledger._reached(counts)
    delta = 1e-6 if ledger.limit is None else ledger.limit.delta
    number = f"ε = {rounded_up(heights[-1], 4)}"
    chart = Chart(
        Axis("number of entries", low=0, high=max(1.0, 1.02 * total)),
        Axis(f"central ε of all of them together, δ = {delta:g}", low=0),
        f"What {total:,} entr{'y has' if total == 1 else 'ies have'} cost",
        f"ε after each entry of the ledger; all together {number} at δ = {delta:g}.",
    )
    chart.line(counts, heights, kind="guarantee")
    chart.mark(total, heights[-1], number)
    if ledger.limit is not None:
        chart.level(ledger.limit.epsilon, f"budget ε = {ledger.limit.epsilon:g}", "budget")
    return chart


@draws("shoal.calibration.calibrate.Calibration")
def _calibration(calibration: "Calibration") -> Chart:
    if calibration.rounds > 1 or calibration.target.before:
        return _spending(calibration.spending)
    chart = _curve(calibration.curve, delta=calibration.delta)
    chart.level(calibration.target.epsilon, f"target ε = {calibration.target.epsilon:g}", "budget")
    return chart


@draws("shoal.calibration.spending.Spending")
def _spending(spending: "Spending") -> Chart:
    heights = spending._heights()
    total = spending.total
    most = max(heights)
    rounds = f"{total:,} round{'' if total == 1 else 's'}"
    number = f"ε = {rounded_up(heights[total], 3)}"
    chart = Chart(
        Axis("number of rounds", low=0, high=1.02 * most),
        Axis("central ε of all rounds together", low=0),
        f"What {rounds} cost",
        f"ε against the number of rounds; {rounds}: {number}. {spending.sentence or ''}",
        note=spending._kinds,
    )
    done = {0: 0.0} | {count: height for count, height in heights.items() if count <= total}
    later = {count: height for count, height in heights.items() if count >= total}
    chart.line(done, done.values(), kind="guarantee")
    if len(later) > 1:
        chart.line(later, later.values(), "if continued at the same rate", "planned")
    chart.mark(total, heights[total], number)
    if spending.budget is not None:
        chart.level(spending.budget.epsilon, f"budget ε = {exactly(spending.budget.epsilon)}", "budget")
        if spending.affordable and spending.affordable <= most:
            day = spending.day(spending.affordable)
            words = f"spent after {spending.affordable:,} round{'' if spending.affordable == 1 else 's'}"
            if day:
                words += f", {day.day} {day:%B %Y}"
            chart.level(spending.affordable, words, "budget", upright=True)
    return chart


# Many settings

_MOST_LINES = 9
_SIGNS = {"local_epsilon": "ε₀", "reports": "n", "delta": "δ", "epsilon": "ε"}
_FAR_APART = 20
"""Values are on a log scale if the largest is this much above the least."""


@draws("shoal.sweeps.Table")
def _table(table: "Table") -> Chart:
    """Draw the last column against the one with the most values, a line for each choice of the others."""
    *inputs, result = table.columns
    values = table.to_dict()
    counts = {name: len(set(values[name])) for name in inputs}
    along = max(inputs, key=counts.__getitem__, default=result)
    others = [name for name in inputs if name != along and counts[name] > 1]
    lines: dict[tuple[Any, ...], list[tuple[float, float]]] = {}
    for row in table:
        lines.setdefault(tuple(row[name] for name in others), []).append((row[along], row[result]))
    note = ", ".join(_setting(name, values[name][0]) for name in inputs if counts[name] == 1)
    if len(lines) > _MOST_LINES:
        note += f"; {_MOST_LINES} of {len(lines):,} lines"
    x = Axis(_SIGNS.get(along, along), _scale(values[along]))
    y = Axis(_SIGNS.get(result, result), _scale(values[result]))
    title = f"{y.label} against {x.label}"
    chart = Chart(x, y, title, f"{title}: {len(table):,} settings.", note=note)
    for key, points in list(lines.items())[:_MOST_LINES]:
        label = ", ".join(_setting(name, value) for name, value in zip(others, key, strict=True))
        points.sort()
        kind = "series" if others else "guarantee"
        chart.line([along for along, _ in points], [up for _, up in points], label, kind)
    return chart


def _setting(name: str, value: float) -> str:
    number = f"{value:,}" if isinstance(value, int) else f"{value:.6g}"
    return f"{_SIGNS.get(name, name)} = {number}"


def _scale(values: Sequence[float]) -> str:
    """Return the scale on which these can be told apart: log, if they are of several magnitudes."""
    return "log" if min(values) > 0 and max(values) > _FAR_APART * min(values) else "linear"


# Estimates

_MOST_BARS, _FEW_BARS = 40, 20
"""How many categories are drawn, and how many of the result of a collection."""
_OUTSIDE = {False: "unbiased: some bars are below 0 or above 1", True: "intervals of the unbiased estimates"}
_VISIBLE = 0.015
"""A band that is narrower than this share of the people is not seen behind the line."""


def _interval(confidence: float) -> str:
    return f"{100 * confidence:g} % interval"


def _bars_of_people(names: Axis, people: str, title: str, text: str, note: str) -> Chart:
    """Return a chart of upright bars that is wide enough for their names."""
    width = max(480.0, 27.0 * len(names.names) + 190)
    return Chart(names, Axis(people), title, text, note=note, width=width, height=400.0)


@draws("shoal.estimation.estimate.Estimate")
def _estimate(
    estimate: "Estimate",
    *,
    names: Sequence[Any] | None = None,
    truth: "NDArray[Any] | None" = None,
    most: int = _MOST_BARS,
    title: str | None = None,
) -> Chart:
    shown = estimate.top(most)
    own = f"{estimate.reports:,} reports, {type(estimate.mechanism).__name__}"
    heading, *notes = (own if title is None else title).split("\n")
    if len(shown) < len(estimate.frequencies):
        notes.append(f"the top {len(shown)} of {len(estimate.frequencies):,}")
    if estimate.outside[shown].any():
        notes.append(_OUTSIDE[estimate.on_simplex])
    interval = _interval(estimate.confidence)
    labels = tuple(str(position if names is None else names[position]) for position in shown)
    chart = _bars_of_people(
        Axis("category" if names is None else "", names=labels),
        "frequency",
        heading,
        f"Estimated frequencies with {interval}s, the most frequent first.",
        "; ".join(notes),
    )
    lower = estimate.lower[shown].tolist()
    upper = estimate.upper[shown].tolist()
    chart.bars(estimate.frequencies[shown].tolist(), lower=lower, upper=upper, label="estimate", interval=interval)
    if truth is not None:
        chart.dots(np.asarray(truth)[shown].tolist(), "truth")
    return chart


@draws("shoal.collect.result.Result")
def _result(result: "Result") -> Chart:
    return _estimate(result.estimate, names=result.labels, most=_FEW_BARS, title=result.task.question)


@draws("shoal.planning.simulation.Trials")
def _trials(trials: "Trials") -> Chart:
    return _estimate(trials.estimate, truth=trials.truth)


@draws("shoal.planning.heavy_hitters.HeavyHitters")
def _hitters(hitters: "HeavyHitters", *, most: int = _MOST_BARS) -> Chart:
    names = tuple(hitters.items[:most])
    interval = _interval(hitters.confidence)
    chart = _bars_of_people(
        Axis("", names=names or ("nothing was found",)),
        "people",
        f"{hitters.people:,} people, {len(hitters.rounds)} rounds",
        f"Strings that many people hold, with {interval}s, the most frequent first.",
        f"the top {most} of {len(hitters.items):,}" if len(hitters.items) > most else "",
    )
    if not names:
        chart.bars([0.0], lower=[0.0], upper=[0.0], label="estimate")
        return chart
    lower = hitters.lower[:most].tolist()
    upper = hitters.upper[:most].tolist()
    chart.bars(hitters.counts[:most].tolist(), lower=lower, upper=upper, label="estimate", interval=interval)
    return chart


def _distribution(
    estimate: "DistributionEstimate", title: str, text: str, *, note: str = "", band: bool = True
) -> Chart:
    """Return the share of people below each threshold, with its intervals or without, and the median."""
    median = estimate.quantile(0.5)
    interval = _interval(estimate.confidence)
    chart = Chart(
        Axis("value", "linear", estimate.source.lower, estimate.source.upper),
        Axis(estimate.axis_name, "linear", 0.0, 1.0),
        title,
        f"{text} {median.value:.6g}, its {interval} {median.lower:.6g} to {median.upper:.6g}.",
        note=note,
    )
    points, below = estimate.distribution
    thresholds = points[1:-1].tolist()
    _, least, most = (estimate.people_below[:, : len(thresholds)] / estimate.reports).tolist()
    chart.band(thresholds, least, most, interval if band else "", "guarantee")
    chart.line(points.tolist(), (below / estimate.reports).tolist(), "estimate", "guarantee")
    chart.mark(median.value, 0.5, f"median {median.value:.4g}")
    return chart


@draws("shoal.estimation.distribution_estimate.LevelEstimate")
def _level_estimate(estimate: "LevelEstimate", *, guarantee: str = "") -> Chart:
    _, least, most = estimate.people_below[:, :-1] / estimate.reports
    widest = float((most - least).max(initial=0.0))
    note = f"mean {estimate.mean}"
    if widest <= _VISIBLE:
        interval = _interval(estimate.confidence)
        note += f"; {interval}s are narrower than the line, ± {rounded_up(widest / 2, 2)} at most"
    title = f"{estimate.reports:,} people" + (f", {guarantee}" if guarantee else "")
    text = f"The mean is {estimate.mean.value:.6g}, the median"
    return _distribution(estimate, title, text, note=note, band=widest > _VISIBLE)


@draws("shoal.estimation.distribution_estimate.TreeEstimate")
def _tree_estimate(estimate: "TreeEstimate") -> Chart:
    title = f"{estimate.reports:,} reports, {estimate.source.leaves:,} leaves"
    return _distribution(estimate, title, "The median is")


def _mean(
    estimate: "MeanEstimate | MixEstimate", mean: "Measured", title: str, *, more: str = "", note: str = ""
) -> Chart:
    """Return a mean with its interval, on the interval of the values; `more` is added to the description."""
    interval = _interval(estimate.confidence)
    low = min(estimate.mechanism.lower, mean.lower)
    high = max(estimate.mechanism.upper, mean.upper)
    chart = Chart(
        Axis(f"mean, with its {interval}", "linear", low, high),
        Axis("", names=("mean",)),
        title,
        f"The mean is {mean}; its {interval} is {mean.lower:.6g} to {mean.upper:.6g}.{more}",
        note=note,
        width=520.0,
        height=170.0 if note else 150.0,
    )
    chart.bars([math.nan], lower=[mean.lower], upper=[mean.upper], texts=[str(mean)])
    chart.dots([mean.value], "", "guarantee")
    return chart


@draws("shoal.estimation.distribution_estimate.MeanEstimate")
def _mean_estimate(estimate: "MeanEstimate") -> Chart:
    return _mean(estimate, estimate._measured, f"{estimate.reports:,} reports, {type(estimate.mechanism).__name__}")


@draws("shoal.estimation.distribution_estimate.MixEstimate")
def _mix_estimate(estimate: "MixEstimate") -> Chart:
    title = f"{estimate.reports:,} reports, split and mix"
    more = f" {estimate.mechanism.warning}"
    return _mean(estimate, estimate.mean, title, more=more, note="one malicious client can move it anywhere")


# Plans


def _of_one_round(rounds: int) -> str:
    return f"expected ℓ₂ error of all frequencies{'' if rounds == 1 else ' in one round'}"


@draws("shoal.planning.plan.Choice")
def _choice(choice: "Choice") -> Chart:
    return _curve(choice.curve, delta=choice.delta)


@draws("shoal.planning.plan.Plan")
def _plan(plan: "Plan") -> Chart:
    """Draw the error of each mechanism, with those of a trusted curator and without a shuffler."""
    texts = [f"{choice.error:.3g}" for choice in plan.choices]
    names = tuple(choice.mechanism.name for choice in plan.choices)
    chart = Chart(
        Axis(_of_one_round(plan.rounds), "log"),
        Axis("", names=names),
        "Which mechanism estimates a histogram best",
        ", ".join(f"{name}: error {text}" for name, text in zip(names, texts, strict=True)),
        note=plan.setting,
    )
    chart.bars([choice.error for choice in plan.choices], texts=texts)
    chart.level(plan.central_error, f"trusted curator {plan.central_error:.3g}", "limit")
    chart.level(plan.local_error, f"no shuffler {plan.local_error:.3g}")
    return chart


@draws("shoal.planning.error_curves.ErrorCurves")
def _error_curves(curves: "ErrorCurves") -> Chart:
    plan = curves.plan
    chart = Chart(
        Axis("central ε" if plan.rounds == 1 else "central ε of all rounds together", "log"),
        Axis(_of_one_round(plan.rounds), "log"),
        "Error of a histogram against the guarantee",
        note=plan.setting,
        width=720.0,
    )
    kinds = {"no shuffler": "comparison", "trusted curator": "limit"}
    for label, errors in curves.errors.items():
        chart.line(curves.epsilons, errors, label, kinds.get(label, "series"))
    chart.mark(plan.epsilon, plan.best.error, f"this plan: {plan.best.error:.3g}")
    return chart


# Training


def _bars_of_bounds(
    label: str, names: Sequence[str], values: Sequence[float], texts: Sequence[str], title: str, **looks: Any
) -> Chart:
    """Return horizontal bars on a log scale, each with its text."""
    kind = looks.pop("kind", "guarantee")
    text = ", ".join(f"{name}: {number}" for name, number in zip(names, texts, strict=True))
    chart = Chart(Axis(label, "log"), Axis("", names=tuple(names)), title, text, **looks)
    chart.bars(values, texts=texts, kind=kind)
    return chart


@draws("shoal.sgd.guarantees.Guarantee")
def _guarantee(guarantee: "Guarantee") -> Chart:
    names, epsilons = zip(*guarantee._rows, strict=True)
    return _bars_of_bounds(
        f"ε at δ = {number_text(guarantee.delta)}",
        names,
        epsilons,
        [rounded_up(value, 4) if math.isfinite(value) else "says nothing" for value in epsilons],
        f"What the run guarantees: ε = {rounded_up(guarantee.epsilon)}",
        note=f"{guarantee.run.sampling}, noise multiplier {guarantee.run.multiplier:g}, {guarantee.run.adjacency}",
        kind=["guarantee", *["local"] * len(guarantee.alternatives)],
    )


@draws("shoal.sgd.comparisons.SamplerTable")
def _sampler_table(table: "SamplerTable") -> Chart:
    """Draw a bar for each sampler: its ε, or, where all have the same, the noise that it needs."""
    names = [each.run.sampling for each in table]
    epsilons = [each.epsilon for each in table]
    multipliers = [each.run.multiplier for each in table]
    title = "The same run by every sampler"
    if len({rounded_up(epsilon, 3) for epsilon in epsilons}) == 1 < len(set(multipliers)):
        return _bars_of_bounds("noise multiplier", names, multipliers, [f"{each:.4g}" for each in multipliers], title)
    label = f"ε at δ = {number_text(table[0].delta)}"
    return _bars_of_bounds(label, names, epsilons, [rounded_up(each, 4) for each in epsilons], title)


@draws("shoal.sgd.comparisons.PoissonComparison")
def _poisson_comparison(comparison: "PoissonComparison") -> Chart:
    names, epsilons = comparison._columns().values()
    return _bars_of_bounds(
        f"ε at δ = {number_text(comparison.guarantee.delta)}",
        names,
        epsilons,
        comparison._texts(4),
        "What holds for the run, and what Poisson accounting would print",
        width=720.0,
        kind=["guarantee", "limit", "comparison"],
    )
