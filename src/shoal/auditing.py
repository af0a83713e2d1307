"""Does a mechanism keep its promise? A lower bound on its ε₀ from many runs, which holds with a stated confidence."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from statistics import NormalDist
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from shoal.amplification.amplify import amplify
from shoal.arrays import Array, IntArray
from shoal.checks import Number, positive, probability, whole
from shoal.digits import rounded_down, rounded_up
from shoal.errors import ParameterError
from shoal.mechanisms.bundled import Bundled
from shoal.mechanisms.coins import Simulation, coins_for
from shoal.mechanisms.dummies import Dummies
from shoal.mechanisms.split_and_mix import SplitAndMix
from shoal.numerics.binomial import log_probability
from shoal.progress import progress
from shoal.searches import bisect_safe
from shoal.shown import Shown

__all__ = ["Audit", "Mechanism", "ProtocolAudit", "audit", "audit_protocol", "probability_above", "probability_below"]

Reports = NDArray[Any]
_LEAST_TRIALS, _MOST_TRIALS = 1000, 10**12
_BATCH, _BATCH_BYTES = 1 << 16, 1 << 24
_LISTED = 1 << 12
"""Up to this number of different reports, each is a group of its own."""
_FEATURES = 8
_QUANTILES = np.concatenate([[0.001, 0.003, 0.01], np.linspace(0.02, 0.98, 49), [0.99, 0.997, 0.999]])


class Mechanism(Protocol):
    """Whatever can be audited: the mechanisms of shoal, and yours."""

    @property
    def local_epsilon(self) -> float:
        """The ε₀ that it claims to have."""

    def randomize(self, values: Any, *, simulation: Simulation | None = None) -> Any:
        """Return one report for each value."""


@dataclass(frozen=True)
class Audit(Shown):
    """What many runs on two inputs have shown.

    Attributes
    ----------
    mechanism : object
        What was run.
    first, second : object
        The two inputs.
    lower : float
        ε₀ is at least this, with the stated confidence; a claim below it is refuted.
    claimed : float
        What the mechanism says.
    event : str
        The reports that tell the two inputs apart the most, in words.
    confidence : float
        The probability that `lower` is right, whatever the mechanism does.
    trials : int
        How often each input was randomized.
    """

    mechanism: Mechanism
    first: Number
    second: Number
    lower: float
    claimed: float
    event: str
    confidence: float
    trials: int

    symbol: ClassVar[str] = "ε₀"
    """What the bound is of."""

    @property
    def passed(self) -> bool:
        """Whether the runs don't contradict the claim; no number of runs could prove it."""
        return self.lower <= self.claimed

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values."""
        facts = {field.name: getattr(self, field.name) for field in fields(self)} | {"passed": self.passed}
        schema = getattr(self.mechanism, "to_dict", None)
        plain = {
            name: value.item() if isinstance(value, np.generic) else value
            for name, value in (("first", self.first), ("second", self.second))
        }
        return facts | plain | {"mechanism": schema() if schema is not None else repr(self.mechanism)}

    def _columns(self) -> dict[str, list[Any]]:
        names = ("lower", "claimed", "passed", "confidence", "trials", "event")
        return {name: [getattr(self, name)] for name in names}

    def _cells(self) -> dict[str, list[str]]:
        verdict = "passed" if self.passed else "VIOLATION"
        facts = {
            "verdict": verdict,
            f"{self.symbol} at least": rounded_down(self.lower),
            "claimed": rounded_up(self.claimed),
        }
        facts |= {"confidence": f"{self.confidence:.12g}", "trials": f"{self.trials:,}", "event": self.event}
        return {name: [text] for name, text in facts.items()}

    def __repr__(self) -> str:
        """Show the verdict in one line."""
        verdict = "passed" if self.passed else "VIOLATION"
        return (
            f"Audit({verdict}: {self.symbol} ≥ {rounded_down(self.lower)} with confidence {self.confidence:.12g}, "
            f"claimed {rounded_up(self.claimed)}, {self.trials:,} trials, {self.mechanism!r})"
        )


def audit(
    mechanism: Mechanism,
    *,
    trials: Number = 1_000_000,
    confidence: float = 0.999,
    first: Number | None = None,
    second: Number | None = None,
    simulation: Simulation | None = None,
    people: Number = 100,
    delta: float = 1e-6,
) -> Audit:
    """Run a mechanism on two inputs many times, and return a lower bound on its ε₀ that holds with a confidence.

    Half of the trials choose the event, a set of reports that one input makes more often than the other; the rest give
    Clopper and Pearson's limits of both probabilities, of which the bound is the ratio. Events are sought in several
    groupings of the reports: by what `mechanism.supports` says of them, if it is there, and by groupings that trust
    nothing, each report by itself, the bits or members of it, ranges of it; the confidence is shared out among them.

    Parameters
    ----------
    mechanism : Mechanism
        Anything with `randomize(values)`, which returns a report for each value, and `local_epsilon`.
    trials : object
        How often to run it on each of the two inputs.
    confidence : float
        Of the lower bound.
    first, second : object
        The two inputs; 0 and 1 if they are not given, or the ends of the interval for numbers.
    simulation : Simulation, optional
        Coins that can be tossed again; by default it runs as it does for real people.
    people, delta : int, float
        Of several messages a person: how many people a run has, and δ of the central ε that is bounded instead of ε₀.

    Examples
    --------
    >>> from shoal.mechanisms import RandomizedResponse
    >>> result = audit(RandomizedResponse(categories=4, local_epsilon=1), trials=1e5, simulation=Simulation(seed=1))
    >>> result.passed, result.event, 0.9 < result.lower < 1
    (True, 'reports that support 0 and not 1', True)
    """
    count = whole(trials=trials, least=_LEAST_TRIALS, most=_MOST_TRIALS)
    risk = 1 - probability(confidence=confidence, usual="0.95 to 0.999")
    if isinstance(mechanism, Bundled | SplitAndMix):
        usual = (0, 1) if isinstance(mechanism, Bundled) else (mechanism.upper, mechanism.lower)
        inputs = usual[0] if first is None else first, usual[1] if second is None else second
        return audit_protocol(mechanism, inputs, people, delta, count, confidence=confidence, simulation=simulation)
    claimed = getattr(mechanism, "local_epsilon", None)
    if not callable(getattr(mechanism, "randomize", None)) or claimed is None:
        raise ParameterError(f"an audit needs a mechanism with `randomize` and `local_epsilon`, got {mechanism!r}")
    claimed = positive(local_epsilon=claimed)
    first = getattr(mechanism, "lower", 0) if first is None else first
    second = getattr(mechanism, "upper", 1) if second is None else second
    runs = _Runs(mechanism, (first, second), simulation)
    eighth = count // 8
    groupings = _groupings(runs, eighth)
    order = _tally(runs, groupings, eighth)
    cut = _tally(runs, groupings, count // 4)
    judge_trials = count - 2 * eighth - count // 4
    each = risk / (4 * len(groupings))  # a lower and an upper limit, in both directions, for every grouping
    events = [
        (grouping, position, way, _event(order[position], cut[position], way, each))
        for position, grouping in enumerate(groupings)
        for way in (0, 1)
    ]
    judged = _tally(runs, groupings, judge_trials)
    best, event = 0.0, "none: no reports tell the two inputs apart"
    for grouping, position, way, labels in events:
        more, less = (int(judged[position][side][labels].sum()) for side in (way, 1 - way))
        low, high = probability_above(more, judge_trials, each), probability_below(less, judge_trials, each)
        if low > high:
            bound = math.log(low / high) * (1 - 1e-12)
            if bound > best:
                best, event = bound, grouping.words(labels)
    return Audit(mechanism, first, second, best, claimed, event, float(confidence), count)


@dataclass(frozen=True)
class _Runs:
    """A mechanism that is run on two inputs."""

    mechanism: Mechanism
    inputs: tuple[Any, Any]
    simulation: Simulation | None

    def once(self, side: int, count: int) -> Reports:
        """Return this number of reports of one input."""
        values = np.full(count, self.inputs[side])
        if self.simulation is None:
            return _array(self.mechanism.randomize(values), count)
        return _array(self.mechanism.randomize(values, simulation=self.simulation), count)

    def batches(self, count: int) -> Iterator[tuple[int, Reports]]:
        """Yield this number of reports of each input, a few at a time."""
        width = self.once(0, 1).nbytes
        size = max(1, min(_BATCH, _BATCH_BYTES // max(1, width)))
        starts = range(0, count, size)
        for start in progress(starts, total=len(starts), label="audit"):
            for side in (0, 1):
                yield side, self.once(side, min(size, count - start))


def _array(reports: Any, count: int) -> Reports:
    """Return the reports as an array of one or two dimensions; what is no number becomes a word."""
    if not isinstance(reports, np.ndarray):
        plain = all(isinstance(report, (int, float, np.number, str)) for report in reports)
        reports = np.array(reports if plain else [repr(report) for report in reports])
    if reports.ndim == 0 or len(reports) != count:
        raise ParameterError(
            f"randomize must return one report for each value, got shape {reports.shape} for {count}", "randomize"
        )
    if reports.dtype.kind == "O":
        reports = np.array([repr(report) for report in reports])
    return np.asarray(reports.reshape(count, -1) if reports.ndim > 1 else reports)


@dataclass(frozen=True)
class _Grouping:
    """A way to sort reports into a few groups."""

    size: int
    labels: Callable[[Reports], IntArray]
    words: Callable[[NDArray[np.intp]], str]


def _groupings(runs: _Runs, trials: int) -> list[_Grouping]:
    """Look at some reports, and say how to group them."""
    few = np.concatenate([runs.once(side, min(trials, 1 << 13)) for side in (0, 1)])
    ways = [_by_report(few), _by_range(few), _by_features(runs, few, trials)]
    if hasattr(runs.mechanism, "supports"):
        ways.insert(0, _by_support(runs))
    return [grouping for grouping in ways if grouping is not None]


def _by_support(runs: _Runs) -> _Grouping:
    """Group by which of the two inputs a report supports."""
    first, second = runs.inputs

    def labels(reports: Reports) -> IntArray:
        one, two = (runs.mechanism.supports(reports, np.full(len(reports), x)) for x in (first, second))  # type: ignore[attr-defined]
        return np.asarray(one, np.int64) + 2 * np.asarray(two, np.int64)

    kinds = (f"neither {first} nor {second}", f"{first} and not {second}", f"{second} and not {first}", "both")
    return _Grouping(4, labels, lambda chosen: "reports that support " + ", or ".join(kinds[label] for label in chosen))


def _keys(reports: Reports) -> Reports:
    """Return one value for each report."""
    if reports.ndim == 1:
        return reports
    rows = np.ascontiguousarray(reports)
    return rows.view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1]))).ravel()


def _by_report(few: Reports) -> _Grouping | None:
    """Take each report by itself, if there are not too many."""
    known = np.unique(_keys(few))
    if len(known) > _LISTED:
        return None

    def labels(reports: Reports) -> IntArray:
        keys = _keys(reports)
        positions = np.minimum(np.searchsorted(known, keys), len(known) - 1)
        return np.where(known[positions] == keys, positions, len(known))

    def words(chosen: NDArray[np.intp]) -> str:
        if few.ndim == 1 and len(chosen) <= 8:
            return "the reports " + ", ".join("others" if x == len(known) else str(known[x]) for x in sorted(chosen))
        return f"{len(chosen):,} of {len(known):,} different reports"

    return _Grouping(len(known) + 1, labels, words)


def _by_range(few: Reports) -> _Grouping | None:
    """Cut the line at quantiles, if reports are numbers and there are many."""
    if few.ndim > 1 or few.dtype.kind not in "iuf" or len(np.unique(few)) <= len(_QUANTILES):
        return None
    edges = np.unique(np.quantile(few, _QUANTILES))

    def words(chosen: NDArray[np.intp]) -> str:
        inside = sorted(chosen)
        if len(inside) != inside[-1] - inside[0] + 1:
            return f"{len(inside)} of {len(edges) + 1} ranges of reports"
        low = f"at least {edges[inside[0] - 1]:g}" if inside[0] else ""
        high = f"below {edges[inside[-1]]:g}" if inside[-1] < len(edges) else ""
        return f"reports {' and '.join(filter(None, (low, high)))}"

    return _Grouping(len(edges) + 1, lambda reports: np.searchsorted(edges, reports, "right").astype(np.int64), words)


def _by_features(runs: _Runs, few: Reports, trials: int) -> _Grouping | None:
    """Take together the bits, or members, that differ the most between the two inputs."""
    features, names = _features(few, runs.inputs)
    if features is None:
        return None
    sums = np.zeros((2, len(names)))
    for side, reports in runs.batches(trials):
        sums[side] += features(reports).sum(axis=0)
    share = (sums.sum(axis=0) + 1) / (2 * trials + 2)
    apart = np.abs(sums[0] - sums[1]) / np.sqrt(share * (1 - share) * 2 * trials)
    chosen = np.sort(np.argsort(-apart, kind="stable")[:_FEATURES])
    weights = 1 << np.arange(len(chosen))
    listed = ", ".join(names[position] for position in chosen)
    return _Grouping(
        1 << len(chosen),
        lambda reports: features(reports)[:, chosen] @ weights,
        lambda labels: f"{len(labels)} of {1 << len(chosen)} patterns of {listed}",
    )


def _features(few: Reports, inputs: tuple[Any, Any]) -> tuple[Callable[[Reports], NDArray[Any]] | None, list[str]]:
    """Return what is either so or not so of a report: its bits, or whether a member is one of the inputs."""
    if few.dtype == np.uint8 and few.ndim == 2:
        names = [f"bit {position}" for position in range(8 * few.shape[1])]
        return lambda reports: np.unpackbits(reports, axis=1, bitorder="little"), names
    if few.dtype.kind in "iu" and few.ndim == 1:
        shifts = np.arange(8 * few.dtype.itemsize, dtype=few.dtype)
        names = [f"bit {position}" for position in shifts]
        return lambda reports: (reports[:, None] >> shifts & 1).astype(np.uint8), names
    if few.ndim == 2 and few.dtype.kind in "iuf":

        def members(reports: Reports) -> NDArray[Any]:
            same = np.concatenate([reports == value for value in inputs], axis=1)
            some = [(reports == value).any(axis=1, keepdims=True) for value in inputs]
            return np.concatenate([same, *some, reports > middle], axis=1).astype(np.uint8)

        middle = np.median(few, axis=0)
        names = [f"[entry {position} is {value}]" for value in inputs for position in range(few.shape[1])]
        names += [f"[{value} is an entry]" for value in inputs]
        return members, names + [f"[entry {position} is large]" for position in range(few.shape[1])]
    return None, []


def _tally(runs: _Runs, groupings: list[_Grouping], trials: int) -> list[IntArray]:
    """Return how often each group was reported on either input."""
    counts = [np.zeros((2, grouping.size), np.int64) for grouping in groupings]
    for side, reports in runs.batches(trials):
        for grouping, count in zip(groupings, counts, strict=True):
            count[side] += np.bincount(grouping.labels(reports), minlength=grouping.size)
    return counts


def _event(order: IntArray, cut: IntArray, way: int, risk: float) -> NDArray[np.intp]:
    """Return the groups with the largest ratio: one half of the counts puts them in order, the other says how many."""
    ratio = (order[way] + 0.5) / (order[1 - way] + 0.5)
    ranked = np.argsort(-ratio, kind="stable")
    more, less = (np.cumsum(cut[side][ranked]) for side in (way, 1 - way))
    width = -NormalDist().inv_cdf(risk)
    low = more + width**2 / 2 - width * np.sqrt(more + width**2 / 4)
    high = less + width**2 / 2 + width * np.sqrt(less + width**2 / 4)
    return ranked[: int(np.argmax(low / high)) + 1]


def probability_above(successes: int, trials: int, risk: float) -> float:
    """Return the lower limit of Clopper and Pearson, which exceeds the true probability with at most this risk."""
    if successes == 0:
        return 0.0

    def safe(share: float) -> bool:
        return _tail(successes, trials, share, 1 - share) <= risk

    return bisect_safe(safe, unsafe=successes / trials, good=0.0, steps=70)


def probability_below(successes: int, trials: int, risk: float) -> float:
    """Return the upper limit of Clopper and Pearson, which is below the true probability with at most this risk."""
    if successes == trials:
        return 1.0

    def safe(share: float) -> bool:
        return _tail(trials - successes, trials, 1 - share, share) <= risk

    return bisect_safe(safe, unsafe=successes / trials, good=1.0, steps=70)


def _tail(successes: int, trials: int, probability: float, complement: float) -> float:
    """Return the probability of this number of successes or more, where fewer are expected; rounded up."""
    if probability <= 0:
        return 0.0
    if complement <= 0 or successes <= trials * probability:
        return 1.0
    failures = trials - successes
    steps = np.arange(min(failures, 20 * math.isqrt(trials) + 100), dtype=np.float64)
    ratios = (failures - steps) / (successes + steps + 1) * (probability / complement)
    terms = np.concatenate([[1.0], np.cumprod(ratios)])
    total = float(terms.sum())
    if len(steps) < failures:  # the remaining terms fall faster than a geometric series
        total += float(terms[-1] * ratios[-1] / (1 - ratios[-1]))
    first = math.exp(log_probability(trials, successes, probability, complement))
    return min(1.0, first * total * (1 + 1e-9))


_MESSAGES = 1 << 21
"""About so many messages are in memory at once."""


@dataclass(frozen=True, repr=False)
class ProtocolAudit(Audit):
    """What many runs of a whole round have shown of its central ε.

    Attributes
    ----------
    people : int
        How many there were in each run.
    delta : float
        The δ that goes with ε.
    """

    people: int = 0
    delta: float = 0.0

    symbol: ClassVar[str] = "central ε"


def audit_protocol(
    mechanism: Bundled | SplitAndMix,
    inputs: tuple[Number, Number],
    people: Number,
    delta: float,
    trials: int,
    *,
    confidence: float,
    simulation: Simulation | None,
) -> ProtocolAudit:
    """Return a lower bound on the central ε at δ that holds with this confidence; `shoal.audit` checks the arguments.

    Half of the trials choose how large the statistic must be, and the rest give Clopper and Pearson's limits: with P at
    least p and Q at most q, ε is at least ln((p − δ)/q).
    """
    count, delta = whole(people=people), probability(delta=delta, zero=True)
    first, second = inputs
    if isinstance(mechanism, Bundled):
        first, second = (whole(input=value, least=0, most=mechanism.categories - 1) for value in inputs)
    if first == second:
        raise ParameterError(f"an audit needs two different inputs, got {first} twice")
    risk = (1 - confidence) / 2
    claimed = amplify(mechanism, reports=count).epsilon(delta)
    kind = _Rounds if isinstance(mechanism, Bundled) else _Sums
    rounds = kind(mechanism, (first, second), count, simulation)
    least = _threshold(*(rounds.statistics(side, trials // 2) for side in (0, 1)), delta=delta)
    judged = [rounds.statistics(side, trials - trials // 2) for side in (0, 1)]
    more, less = (int(np.count_nonzero(values >= least)) for values in judged)
    low, high = probability_above(more, len(judged[0]), risk), probability_below(less, len(judged[1]), risk)
    bound = math.log((low - delta) / high) * (1 - 1e-12) if low - delta > high else 0.0
    return ProtocolAudit(
        mechanism=mechanism,
        first=first,
        second=second,
        lower=bound,
        claimed=claimed,
        event=f"rounds in which {_words(mechanism)} is at least {least:.6g}",
        confidence=float(confidence),
        trials=trials,
        people=count,
        delta=delta,
    )


def _words(mechanism: Bundled | SplitAndMix) -> str:
    if isinstance(mechanism, SplitAndMix):
        return "the sum of all messages, that of the others taken off,"
    kind = "difference" if isinstance(mechanism, Dummies) else "ratio"
    return f"the {kind} of the counts of the two categories, those of all others taken off,"


@dataclass(frozen=True)
class _Rounds:
    """A protocol that is run with one person at either of two categories, and all others at the first."""

    mechanism: Any
    inputs: tuple[Any, Any]
    people: int
    simulation: Simulation | None

    @property
    def bundle(self) -> int:
        """How many messages a person sends."""
        return int(self.mechanism.bundle)

    def statistics(self, side: int, trials: int) -> Array:
        """Return the statistic of this many rounds in which the one person holds this one of the inputs."""
        size = max(1, _MESSAGES // (self.people * self.bundle))
        starts = range(0, trials, size)
        shown = progress(starts, total=len(starts), label="audit")
        return np.concatenate([self._some(side, min(size, trials - start)) for start in shown])

    def _some(self, side: int, rounds: int) -> Array:
        mechanism = self.mechanism
        values = np.full((rounds, self.people), self.inputs[0])
        values[:, 0] = self.inputs[side]
        messages = mechanism.randomize(values.ravel(), simulation=self.simulation).reshape(-1)
        one, other = (
            mechanism.supports(messages, np.full(len(messages), value)).reshape(rounds, -1).sum(axis=1)
            for value in self.inputs
        )
        if isinstance(mechanism, Dummies):
            noise = mechanism.noise(coins_for(self.simulation), 2 * rounds * mechanism.helpers).reshape(2, rounds, -1)
            return np.asarray(one - other + noise[0].sum(axis=1) - noise[1].sum(axis=1), np.float64)
        known = self.people - 1 if mechanism.moments.own[0] >= 1 else 0  # messages of the others, if they are certain
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.nan_to_num(np.asarray((one - known) / other, np.float64), nan=0.0, posinf=math.inf)


@dataclass(frozen=True)
class _Sums(_Rounds):
    """Split and mix, run with one person at either of two numbers, and all others at the second."""

    @property
    def bundle(self) -> int:
        """How many messages a person sends."""
        return int(self.mechanism.messages)

    def _some(self, side: int, rounds: int) -> Array:
        mechanism, (first, second) = self.mechanism, self.inputs
        values = np.full((rounds, self.people), second, np.float64)
        values[:, 0] = self.inputs[side]
        messages = mechanism.randomize(values.ravel(), simulation=self.simulation).reshape(rounds, -1)
        others = round((second - mechanism.lower) / (mechanism.upper - mechanism.lower) * mechanism.steps * self.people)
        half = mechanism.modulus // 2
        shifted = messages.sum(axis=1, dtype=np.uint64) + np.uint64((half - others) % mechanism.modulus)
        sums = (shifted & np.uint64(mechanism.modulus - 1)).astype(np.float64) - half
        return np.asarray(sums if first > second else -sums, np.float64)


def _threshold(first: Array, second: Array, *, delta: float) -> float:
    """Return the least value of the statistic that makes the ratio largest, as far as few runs can tell."""
    ordered = np.sort(first)
    places = np.unique(np.linspace(0, len(ordered) - 1, 400).astype(np.int64))
    levels = np.unique(ordered[places])
    more = len(first) - np.searchsorted(ordered, levels)
    less = len(second) - np.searchsorted(np.sort(second), levels)
    low = np.maximum(more - 4 * np.sqrt(more) - delta * len(first), 1e-9)
    return float(levels[int(np.argmax(low / (less + 4 * np.sqrt(less) + 8)))])
