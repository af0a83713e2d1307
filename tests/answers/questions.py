"""The questions: several thousand settings of the public interface, whose answers are numbers.

A case is a key and a function that asks a few questions about one object, such as one curve at several δ. What it
returns is flattened: `answers.jsonl` has one line a case, and each part of it is one answer. Numbers are recorded, and
names of bounds and of errors, but no sentences. What may be spelled in another way one day stands at the top.
"""

import contextlib
import hashlib
import io
import itertools
import json
import math
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import shoal
from shoal import cli, sgd
from shoal.collect.task import Task
from shoal.frequency.names import Names

__all__ = ["Answers", "Case", "cases"]

Answers = dict[str, Any]
Parts = Mapping[str, Callable[[], Any]]

# What may be spelled in another way: how it is spelled now, and what the file of answers calls it.

BLANKET_PROBABILITY, OWN_PROBABILITY = "blanket_probability", "own_probability"
FIELDS: dict[str, str] = {"blanket_probability": "blanket_chance", "own_probability": "own_chance"}
"""Of dictionaries and of JSON: the name of today → the name in the file of answers."""
ERRORS: dict[str, str] = {}
"""Classes of errors, in the same way."""
BOUND_NAMES: dict[str, str] = {}
"""Bounds and methods, in the same way."""
SILENT = ("seconds", "time", "version", "schema_version")
"""Fields of numbers that are no answers."""


def decomposition(blanket: float, own: float, local_epsilon: float) -> shoal.Decomposition:
    """Return a decomposition with p and q."""
    probabilities: dict[str, Any] = {BLANKET_PROBABILITY: blanket, OWN_PROBABILITY: own}
    return shoal.Decomposition(**probabilities, local_epsilon=local_epsilon)


def run_of(fields: Mapping[str, Any]) -> sgd.Run:
    """Return a run; the file of answers calls the sampler that keeps its order by another name."""
    renamed = {("sampling" if name == "order" else name): value for name, value in fields.items()}
    return sgd.Run(**renamed | ({"sampling": "fixed-order"} if "sampling" in renamed else {}))


def guarantee(run: sgd.Run, delta: float) -> sgd.Guarantee:
    """Return what a run of noisy SGD guarantees."""
    return sgd.guarantee(run, delta=delta)


def calibrated(run: sgd.Run, epsilon: float, delta: float) -> float:
    """Return the least noise multiplier for a run; its own is not looked at."""
    multiplier = sgd.calibrate(run, epsilon=epsilon, delta=delta).noise_multiplier
    assert multiplier is not None
    return multiplier


def task(mechanism: Any, *, fakes: int, minimum: int) -> Task:
    """Return a task of a collection with fixed keys."""
    return Task(
        question="Which one?",
        mechanism=mechanism,
        names=Names(mechanism.categories),
        delta=1e-6,
        epsilon_limit=1.0,
        minimum=minimum,
        fakes=fakes,
        round_seconds=86400,
        too_small="extend",
        replay_rounds=8,
        analyst_key=hashlib.sha256(b"the analyst").digest(),
        shuffler_key=hashlib.sha256(b"the shuffler").digest(),
    )


GENERIC = (
    "tightest",
    "strong-clones",
    "clones",
    "clones-closed-form",
    "clones-sharp-form",
    "strong-clones-sharp-form",
    "blanket-bennett",
    "blanket-hoeffding",
    "girgis",
    "koskela",
    "erlingsson",
)
NUMERICAL = ("strong-clones", "clones", "koskela")
METHODS = ("loss", "renyi", "advanced", "advanced-closed-form")
CATEGORICAL: dict[str, Callable[..., Any]] = {
    "randomized-response": shoal.RandomizedResponse,
    "hadamard-response": shoal.HadamardResponse,
    "recursive-hadamard-response": shoal.RecursiveHadamardResponse,
    "projective-geometry-response": shoal.ProjectiveGeometryResponse,
    "private-independent-rappor": shoal.PrivateIndependentRappor,
    "subset-selection": shoal.SubsetSelection,
    "local-hashing": shoal.LocalHashing,
    "unary-encoding": shoal.UnaryEncoding,
    "rappor": shoal.Rappor,
}


@dataclass(frozen=True)
class Case:
    """Questions about one object.

    Attributes
    ----------
    key : family, then the setting.
    parts : a function that returns the questions, each by name; none of the work is done before it is called.
    """

    key: str
    parts: Callable[[], Parts]

    @property
    def family(self) -> str:
        """The first word of the key."""
        return self.key.partition("/")[0]

    def answers(self) -> Answers:
        """Ask everything, and return the answers by name; an error is answered by its class."""
        found: Answers = {}
        try:
            parts = self.parts()
        except shoal.ShoalError as error:
            return {"all": _error(error)}
        for name, ask in parts.items():
            try:
                value = ask()
            except shoal.ShoalError as error:
                value = _error(error)
            found |= dict(_flat(name, value))
        return found


def _error(error: Exception) -> str:
    name = type(error).__name__
    return f"!{ERRORS.get(name, name)}"


def _flat(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the numbers and words in a value, each with a name of its own."""
    if isinstance(value, (np.ndarray, np.generic)):
        value = value.tolist()
    if isinstance(value, Mapping):
        for key, inner in value.items():
            field = FIELDS.get(str(key), str(key))
            yield from _flat(f"{name}.{field}" if name else field, inner)
    elif isinstance(value, (list, tuple)):
        for index, inner in enumerate(value):
            yield from _flat(f"{name}.{index}", inner)
    elif value is None or isinstance(value, (bool, int, float, str)):
        yield name, value
    else:
        raise TypeError(f"{name} is {value!r}, which is no plain value")


def numbers(value: Any) -> Any:
    """Return a plain value without its words, but for the names of bounds."""
    if isinstance(value, Mapping):
        kept = {key: _name(inner) if key == "bound" else numbers(inner) for key, inner in value.items()}
        return {key: inner for key, inner in kept.items() if inner is not None and key not in SILENT}
    if isinstance(value, (list, tuple)):
        return [inner for inner in map(numbers, value) if inner is not None]
    return None if isinstance(value, str) else value


def _name(bound: Any) -> Any:
    return BOUND_NAMES.get(bound, bound)


def some(values: Any) -> list[float]:
    """Return up to three values of a vector, and their sum."""
    vector = np.asarray(values, np.float64).ravel()
    chosen = vector[np.unique(np.linspace(0, len(vector) - 1, 3).astype(int))].tolist()
    return [*chosen, math.fsum(vector.tolist())]


def digest(data: bytes) -> str:
    """Return the beginning of the SHA-256 of bytes."""
    return hashlib.sha256(data).hexdigest()[:16]


# One round.


def _curve_parts(
    curve: shoal.PrivacyCurve, deltas: tuple[float, ...] = (1e-3, 1e-6, 1e-10), shares: tuple[float, ...] = (0.1, 0.5)
) -> dict[str, Callable[[], Any]]:
    """Ask for ε at several δ, for δ at several parts of ε₀, and for the bracket."""
    local = curve.local_epsilon if math.isfinite(curve.local_epsilon) else 2.0
    parts: dict[str, Callable[[], Any]] = {}
    for delta in deltas:
        parts[f"ε({delta:g})"] = lambda delta=delta: curve.epsilon(delta)  # type: ignore[misc]
    for share in shares:
        parts[f"δ({share:g}ε₀)"] = lambda share=share: curve.delta(share * local)  # type: ignore[misc]
    parts["bracket"] = lambda: tuple(curve.epsilon_bracket(1e-6))
    return parts


def _amplify() -> Iterator[Case]:
    for bound, local, reports in itertools.product(
        GENERIC, (0.1, 0.5, 1.0, 2.0, 4.0, 8.0), (1, 2, 30, 1000, 10**5, 10**7, 10**10)
    ):
        if bound in ("tightest", "girgis", "koskela") and reports not in (2, 1000, 10**7):
            continue

        def parts(bound: str = bound, local: float = local, reports: int = reports) -> Parts:
            return _curve_parts(shoal.amplify(local_epsilon=local, reports=reports, bound=bound))

        yield Case(f"amplify/{bound}/ε₀={local:g}/n={reports}", parts)
    for bound, local, reports in itertools.product(GENERIC, (0.0, 0.3, 3.0, 20.0), (5000,)):

        def facts(bound: str = bound, local: float = local, reports: int = reports) -> Parts:
            curve = shoal.amplify(local_epsilon=local, reports=reports, bound=bound)
            return {
                "": lambda: numbers(curve.to_dict(delta=1e-5)),
                "zero": lambda: curve.epsilon(0),
                "amplified": lambda: curve.amplified,
            }

        yield Case(f"facts/{bound}/ε₀={local:g}/n={reports}", facts)


def _lower() -> Iterator[Case]:
    sizes = (None, 2, 3, 20)
    for categories, local, reports in itertools.product(sizes, (0.2, 1.0, 4.0), (1, 50, 10**4, 10**8)):

        def parts(categories: int | None = categories, local: float = local, reports: int = reports) -> Parts:
            limit = shoal.lower_bound(local_epsilon=local, reports=reports, categories=categories)
            return {
                "ε": lambda: limit.epsilon([1e-3, 1e-6, 1e-10]),
                "δ": lambda: limit.delta([0.0, 0.1 * local, 0.5 * local]),
            }

        yield Case(f"lower/k={categories or 'any'}/ε₀={local:g}/n={reports}", parts)
    for local, reports in itertools.product((1.0, 3.0), (100, 10**6)):

        def of_curve(local: float = local, reports: int = reports) -> Parts:
            limit = shoal.amplify(local_epsilon=local, reports=reports).lower
            assert limit is not None
            return {"ε": lambda: limit.epsilon([1e-4, 1e-8]), "δ": lambda: limit.delta(0.2)}

        yield Case(f"lower/curve/ε₀={local:g}/n={reports}", of_curve)


def _approximate() -> Iterator[Case]:
    for bound, local_delta, local, reports in itertools.product(
        ("tightest", "strong-clones", "clones"), (1e-15, 1e-11, 1e-8), (0.5, 2.0, 5.0), (10, 10**4, 10**6)
    ):

        def parts(
            bound: str = bound, local: float = local, reports: int = reports, local_delta: float = local_delta
        ) -> Parts:
            curve = shoal.amplify(local_epsilon=local, local_delta=local_delta, reports=reports, bound=bound)
            return _curve_parts(curve, (1e-2, 1e-6), (0.3, 1.0))

        yield Case(f"approximate/{bound}/δ₀={local_delta:g}/ε₀={local:g}/n={reports}", parts)


def _decompositions() -> Iterator[Case]:
    bounds = ("tightest", "decomposition", "decomposition-closed-form", "strong-clones", "blanket")
    for (blanket, own, local), reports, bound in itertools.product(
        ((0.05, 0.4, 2.0), (0.2, 0.3, 0.7), (0.01, 0.9, 4.0), (0.3, 0.04, 0.1)), (1, 100, 10**4, 10**7), bounds
    ):

        def parts(
            blanket: float = blanket, own: float = own, local: float = local, reports: int = reports, bound: str = bound
        ) -> Parts:
            known = decomposition(blanket, own, local)
            curve = shoal.amplify(known, reports=reports, bound=bound)
            return {"largest": lambda: known.largest_local_epsilon} | _curve_parts(curve)

        yield Case(f"decomposition/p={blanket:g}/q={own:g}/{bound}/n={reports}", parts)


def _renyi() -> Iterator[Case]:
    orders = (1.001, 1.5, 2.0, 8.0, 64.0, 1000.0)
    for bound, local, reports in itertools.product((*NUMERICAL, "girgis"), (0.3, 1.0, 4.0), (1, 100, 10**6)):

        def parts(bound: str = bound, local: float = local, reports: int = reports) -> Parts:
            curve = shoal.amplify(local_epsilon=local, reports=reports, bound=bound)
            return {"ρ": lambda: curve.renyi(orders)}

        yield Case(f"renyi/{bound}/ε₀={local:g}/n={reports}", parts)
    for name, randomizer in _some_randomizers():

        def of_randomizer(randomizer: Any = randomizer) -> Parts:
            return {"ρ": lambda: shoal.amplify(randomizer, reports=1000).renyi((1.5, 4.0, 32.0))}

        yield Case(f"renyi/{name}", of_randomizer)


def _some_randomizers() -> Iterator[tuple[str, Any]]:
    for name in ("randomized-response", "hadamard-response", "subset-selection", "rappor"):
        yield f"{name}/k=10", CATEGORICAL[name](categories=10, local_epsilon=2.0)
    yield "one-bit-mean", shoal.OneBitMean(local_epsilon=1.5)
    yield "decomposition", decomposition(0.05, 0.4, 2.0)


def _compare() -> Iterator[Case]:
    settings: dict[str, Callable[[], dict[str, Any]]] = {
        "ε₀=0.4": lambda: {"local_epsilon": 0.4},
        "ε₀=1": lambda: {"local_epsilon": 1},
        "ε₀=5": lambda: {"local_epsilon": 5},
        "δ₀=1e-12": lambda: {"local_epsilon": 2, "local_delta": 1e-12},
        "binary": lambda: {"randomizer": shoal.RandomizedResponse(categories=2, local_epsilon=1)},
        "k=20": lambda: {"randomizer": shoal.RandomizedResponse(categories=20, local_epsilon=3)},
        "decomposition": lambda: {"randomizer": decomposition(0.05, 0.4, 2.0)},
        "one-bit-mean": lambda: {"randomizer": shoal.OneBitMean(local_epsilon=1)},
    }
    for (name, setting), reports, delta in itertools.product(settings.items(), (50, 10**4, 10**6), (1e-4, 1e-7)):

        def parts(
            setting: Callable[[], dict[str, Any]] = setting, reports: int = reports, delta: float = delta
        ) -> Parts:
            curves = shoal.compare(**setting(), reports=reports, delta=delta)
            return {_name(curve.bound): lambda curve=curve: curve.epsilon(delta) for curve in curves}  # type: ignore[misc]

        yield Case(f"compare/{name}/n={reports}/δ={delta:g}", parts)


def _certify() -> Iterator[Case]:
    for bound, local, reports, delta, local_delta in itertools.product(
        ("strong-clones", "clones", "decomposition"), (0.5, 2.0), (1, 20, 3000), (1e-3, 1e-7), (0.0, 1e-13)
    ):
        if bound == "decomposition" and local_delta:
            continue

        def parts(
            bound: str = bound,
            local: float = local,
            reports: int = reports,
            delta: float = delta,
            local_delta: float = local_delta,
        ) -> Parts:
            kind: dict[str, Any] = {"local_epsilon": local, "local_delta": local_delta}
            if bound == "decomposition":
                kind = {"randomizer": decomposition(0.05, 0.4, local)}
            proof = shoal.amplify(**kind, reports=reports, bound=bound).certify(delta=delta)
            names = ("epsilon", "delta", "proven_delta", "bits")
            numbers = proof.claim.to_dict()
            return {
                "": lambda: (
                    {name: getattr(proof, name) for name in names}
                    | {name: numbers.get(name, 0.0) for name in ("reports", "local_epsilon", "local_delta")}
                ),
                "p,q": lambda: tuple(
                    numbers[name] for name in (BLANKET_PROBABILITY, OWN_PROBABILITY) if name in numbers
                ),
                "again": lambda: shoal.Certificate.from_json(proof.to_json()) == proof,
            }

        yield Case(f"certify/{bound}/ε₀={local:g}/n={reports}/δ={delta:g}/δ₀={local_delta:g}", parts)
    for bound in ("koskela", "girgis", "clones-sharp-form"):

        def refused(bound: str = bound) -> Parts:
            return {"": lambda: shoal.amplify(local_epsilon=1, reports=100, bound=bound).certify(delta=1e-3).epsilon}

        yield Case(f"certify/{bound}", refused)


def _calibrate() -> Iterator[Case]:
    def parts_of(found: Callable[[], shoal.Calibration]) -> Callable[[], Parts]:
        def parts() -> Parts:
            answer = found()
            names = ("local_epsilon", "reports", "epsilon")
            return {"": lambda: {name: getattr(answer, name) for name in names}}

        return parts

    for bound, epsilon, delta in itertools.product(GENERIC, (0.05, 1.0), (1e-4, 1e-8)):
        if bound == "koskela" and epsilon < 1:
            continue  # seconds each
        for reports in (300, 10**5):

            def forward(
                bound: str = bound, epsilon: float = epsilon, delta: float = delta, reports: int = reports
            ) -> shoal.Calibration:
                return shoal.calibrate(epsilon=epsilon, delta=delta, reports=reports, bound=bound)

            yield Case(f"calibrate/{bound}/ε={epsilon:g}/δ={delta:g}/n={reports}", parts_of(forward))
        for local in (0.4, 3.0):

            def backward(
                bound: str = bound, epsilon: float = epsilon, delta: float = delta, local: float = local
            ) -> shoal.Calibration:
                return shoal.calibrate(epsilon=epsilon, delta=delta, local_epsilon=local, bound=bound)

            yield Case(f"calibrate/{bound}/ε={epsilon:g}/δ={delta:g}/ε₀={local:g}", parts_of(backward))
    kinds: dict[str, Callable[[], Any]] = {
        f"{name}/k={size}": partial(kind, categories=size, local_epsilon=2.5)
        for name, kind in CATEGORICAL.items()
        for size in (3, 40)
    }
    kinds["one-bit-mean"] = lambda: shoal.OneBitMean(local_epsilon=2.5)
    for (name, kind), asked in itertools.product(kinds.items(), ({"reports": 2000}, {})):
        if not asked and name not in ("randomized-response/k=3", "subset-selection/k=40", "one-bit-mean"):
            continue  # seconds each

        def of_mechanism(kind: Callable[[], Any] = kind, asked: dict[str, Any] = asked) -> shoal.Calibration:
            return shoal.calibrate(kind(), epsilon=0.5, delta=1e-6, **asked)

        yield Case(f"calibrate/{name}/{'n=2000' if asked else 'ε₀'}", parts_of(of_mechanism))


# Mechanisms.


def _kinds() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield mechanisms for categories with their own parameters, and several numbers of categories."""
    for (name, kind), size, local in itertools.product(CATEGORICAL.items(), (2, 5, 33, 300), (0.4, 2.5)):
        yield (
            f"{name}/k={size}/ε₀={local:g}",
            partial(kind, categories=size, local_epsilon=local),
        )
    others: tuple[tuple[str, dict[str, Any]], ...] = (
        ("hadamard-response", {"blocks": 1}),
        ("hadamard-response", {"blocks": 4}),
        ("recursive-hadamard-response", {"blocks": 2}),
        ("projective-geometry-response", {"order": 3, "dimension": 3, "blocks": 2}),
        ("private-independent-rappor", {"order": 7, "window": 3}),
        ("subset-selection", {"size": 4}),
        ("subset-selection", {"size": 12}),
        ("local-hashing", {"buckets": 5}),
        ("unary-encoding", {"symmetric": True}),
    )
    for name, given in others:
        told = ",".join(f"{key}={value}" for key, value in given.items())
        yield (
            f"{name}/k=20/ε₀=2/{told}",
            partial(CATEGORICAL[name], categories=20, local_epsilon=2.0, **given),
        )


def _numeric_kinds() -> Iterator[tuple[str, Callable[[], Any]]]:
    ends: tuple[dict[str, float], ...] = ({}, {"lower": -3.0, "upper": 5.0})
    for local, given in itertools.product((0.1, 0.5, 1.5, 6.0), ends):
        told = ",".join(f"{value:g}" for value in given.values())
        yield (
            f"one-bit-mean/ε₀={local:g}/{told}",
            partial(shoal.OneBitMean, local_epsilon=local, **given),
        )
        yield (
            f"laplace/ε₀={local:g}/{told}",
            partial(shoal.Laplace, local_epsilon=local, **given),
        )
    for deviation, given in itertools.product((0.3, 1.0, 4.0), ends):
        told = ",".join(f"{value:g}" for value in given.values())
        yield (
            f"gaussian/σ={deviation:g}/{told}",
            partial(shoal.Gaussian, deviation=deviation, **given),
        )


def _mechanisms() -> Iterator[Case]:
    for name, made in _kinds():

        def parts(made: Callable[[], Any] = made) -> Parts:
            kind = made()
            size = kind.categories
            values = np.minimum(np.arange(400) ** 2 // 160 % (size + 3), size - 1)
            reports = kind.randomize(values, simulation=shoal.Simulation(seed=11))
            counts = kind.aggregate(reports)
            estimate = kind.estimate(counts, confidence=0.9)
            uneven = np.arange(1, size + 1) / (size * (size + 1) / 2)
            return {
                "ε₀": lambda: kind.local_epsilon,
                "bits": lambda: (kind.bits_per_report, kind.bytes_per_report, kind.cells),
                "parameters": lambda: numbers(kind.to_dict()),
                "variance": lambda: float(np.sum(kind.variance(reports=1000))),
                "uneven": lambda: some(kind.variance(uneven, reports=1000)),
                "reports": lambda: digest(np.ascontiguousarray(reports).astype(np.int64).tobytes()),
                "wire": lambda: digest(kind.to_bytes(reports)),
                "back": lambda: bool(np.array_equal(kind.from_bytes(kind.to_bytes(reports)), reports)),
                "counts": lambda: digest(counts.values.astype(np.int64).tobytes()),
                "frequencies": lambda: some(estimate.frequencies),
                "errors": lambda: some(estimate.standard_errors),
                "lower": lambda: some(estimate.lower),
                "upper": lambda: some(estimate.upper),
                "projected": lambda: some(estimate.projected().frequencies),
                "narrow": lambda: some(kind.estimate(counts, confidence=0.5).upper),
            }

        yield Case(f"mechanism/{name}", parts)
    for name, made in _numeric_kinds():

        def of_numbers(made: Callable[[], Any] = made) -> Parts:
            kind = made()
            values = kind.lower + (kind.upper - kind.lower) * (np.arange(500) % 83 / 82)
            reports = kind.randomize(values, simulation=shoal.Simulation(seed=5))
            estimate = kind.estimate(kind.aggregate(reports))
            return {
                "ε₀": lambda: kind.local_epsilon,
                "bits": lambda: (kind.bits_per_report, kind.outputs),
                "variance": lambda: (kind.variance(reports=700), kind.variance(values, reports=700)),
                "reports": lambda: digest(reports.astype(np.int64).tobytes()),
                "wire": lambda: digest(kind.to_bytes(reports)),
                "mean": lambda: (estimate.mean, estimate.standard_error, estimate.lower, estimate.upper),
            }

        yield Case(f"mechanism/{name}", of_numbers)


def _randomizers() -> Iterator[Case]:
    """Ask what shuffling makes of every mechanism, by its own bound."""
    counts = (3, 100, 10**5)
    for (name, made), reports in itertools.product(_kinds(), counts):
        if "k=33" in name:
            continue

        def parts(made: Callable[[], Any] = made, reports: int = reports) -> Parts:
            curve = shoal.amplify(made(), reports=reports)
            limit = curve.lower
            assert limit is not None
            return _curve_parts(curve, (1e-3, 1e-7), (0.3,)) | {"limit": lambda: limit.epsilon(1e-5)}

        yield Case(f"randomizer/{name}/n={reports}", parts)
    bounds = ("blanket-bennett", "blanket-hoeffding", "decomposition", "decomposition-closed-form", "cheu", "clones")
    kinds: dict[str, Callable[[], Any]] = {
        "k=2": lambda: shoal.RandomizedResponse(categories=2, local_epsilon=1.0),
        "k=2/ε₀=4": lambda: shoal.RandomizedResponse(categories=2, local_epsilon=4.0),
        "k=7": lambda: shoal.RandomizedResponse(categories=7, local_epsilon=1.0),
        "one-bit-mean": lambda: shoal.OneBitMean(local_epsilon=1.0),
        "laplace": lambda: shoal.Laplace(local_epsilon=1.0),
        "rappor": lambda: shoal.Rappor(categories=7, local_epsilon=1.0),
    }
    for (name, made), bound, reports in itertools.product(kinds.items(), bounds, (1000, 10**6)):

        def by_formula(made: Callable[[], Any] = made, bound: str = bound, reports: int = reports) -> Parts:
            return _curve_parts(shoal.amplify(made(), reports=reports, bound=bound), (1e-3, 1e-7), (0.3,))

        yield Case(f"formula/{name}/{bound}/n={reports}", by_formula)


def _noise() -> Iterator[Case]:
    """Ask the same of noise on numbers, which takes longer."""
    kinds: dict[str, Callable[[], Any]] = {
        "one-bit-mean/ε₀=0.5": lambda: shoal.OneBitMean(local_epsilon=0.5),
        "one-bit-mean/ε₀=4": lambda: shoal.OneBitMean(local_epsilon=4.0),
        "laplace/ε₀=0.5": lambda: shoal.Laplace(local_epsilon=0.5),
        "laplace/ε₀=3": lambda: shoal.Laplace(local_epsilon=3.0),
        "gaussian/σ=1": lambda: shoal.Gaussian(deviation=1.0),
        "gaussian/σ=3": lambda: shoal.Gaussian(deviation=3.0),
    }
    for (name, made), reports in itertools.product(kinds.items(), (1000, 10**5)):
        if name.startswith("laplace") and reports < 10**5:
            continue  # ten seconds each

        def parts(made: Callable[[], Any] = made, reports: int = reports) -> Parts:
            curve = shoal.amplify(made(), reports=reports)
            return {"ε": lambda: curve.epsilon(1e-6), "δ": lambda: curve.delta(0.1)}

        yield Case(f"noise/{name}/n={reports}", parts)


def _audits() -> Iterator[Case]:
    kinds: dict[str, Callable[[], Any]] = {
        f"{name}/k={size}": partial(kind, categories=size, local_epsilon=1.2)
        for name, kind in CATEGORICAL.items()
        for size in (2, 9)
    }
    kinds["one-bit-mean"] = lambda: shoal.OneBitMean(local_epsilon=1.2)
    kinds["laplace"] = lambda: shoal.Laplace(local_epsilon=1.2)
    for (name, made), seed in itertools.product(kinds.items(), (1, 2)):

        def parts(made: Callable[[], Any] = made, seed: int = seed) -> Parts:
            found = shoal.audit(made(), trials=4000, simulation=shoal.Simulation(seed=seed))
            return {"": lambda: {"lower": found.lower, "claimed": found.claimed, "passed": found.passed}}

        yield Case(f"audit/{name}/{seed}", parts)


def _plans() -> Iterator[Case]:
    for categories, reports, epsilon, local in (
        (2, 1000, 0.5, None),
        (5, 20_000, 0.5, None),
        (16, 500, 1.0, 2.0),
    ):

        def parts(
            categories: int = categories, reports: int = reports, epsilon: float = epsilon, local: float | None = local
        ) -> Parts:
            found = shoal.plan(categories=categories, reports=reports, epsilon=epsilon, local_epsilon=local)
            names = [choice.mechanism.name for choice in found.choices]
            return {"": lambda: numbers(found.to_dict()), "order": lambda: names}

        yield Case(f"plan/k={categories}/n={reports}/ε={epsilon:g}/ε₀={local or 'any'}", parts)


def _sweeps() -> Iterator[Case]:
    for bound in ("tightest", "clones", "clones-closed-form", "blanket-hoeffding"):

        def parts(bound: str = bound) -> Parts:
            table = shoal.sweep(
                local_epsilon=[0.25, 1.25, 6.0], reports=[10, 1e4, 1e6], delta=[1e-3, 1e-9], bound=bound
            )
            return {"": lambda: table["epsilon"], "csv": lambda: digest(table.to_csv().encode())}

        yield Case(f"sweep/{bound}", parts)


# Many rounds.


def _compositions() -> Iterator[Case]:
    for method, bound, local, reports, times in itertools.product(
        METHODS, ("strong-clones", "clones", "clones-closed-form"), (0.3, 1.0, 3.0), (10**4, 10**6), (1, 3, 100)
    ):
        if method.startswith("advanced") and (local != 1 or times == 100):
            continue  # seconds each

        def parts(
            method: str = method, bound: str = bound, local: float = local, reports: int = reports, times: int = times
        ) -> Parts:
            curve = shoal.amplify(local_epsilon=local, reports=reports, bound=bound).repeated(times, method=method)
            asked: dict[str, Callable[[], Any]] = {
                "ε": lambda: curve.epsilon(1e-6),
                "ε₀": lambda: curve.local_epsilon,
            }
            if method == "loss":  # the others take long to turn ε into δ, and have no bracket
                asked["bracket"] = lambda: tuple(curve.epsilon_bracket(1e-6))
                asked["δ"] = lambda: curve.delta(0.9 * float(curve.epsilon(1e-6)))
            return asked

        yield Case(f"compose/{method}/{bound}/ε₀={local:g}/n={reports}/×{times}", parts)
    mixtures: dict[str, Callable[[], list[Any]]] = {
        "two": lambda: [
            (shoal.amplify(local_epsilon=1, reports=10**4), 20),
            (shoal.amplify(local_epsilon=2, reports=10**5), 7),
        ],
        "approximate": lambda: [
            (shoal.amplify(local_epsilon=1, local_delta=1e-14, reports=10**4), 5),
            shoal.amplify(local_epsilon=3, reports=10**4),
        ],
        "randomizers": lambda: [
            (shoal.amplify(shoal.RandomizedResponse(categories=10, local_epsilon=2), reports=10**4), 10),
            (shoal.amplify(shoal.HadamardResponse(categories=30, local_epsilon=1), reports=10**4), 10),
            shoal.amplify(decomposition(0.05, 0.4, 2.0), reports=10**4),
        ],
        "nested": lambda: [
            shoal.amplify(local_epsilon=1, reports=10**4).repeated(3),
            shoal.amplify(local_epsilon=1, reports=10**4),
        ],
        "formula": lambda: [
            shoal.amplify(local_epsilon=1, reports=10**5, bound="clones-closed-form"),
            (shoal.amplify(local_epsilon=1, reports=10**5), 4),
        ],
        "one-bit-mean": lambda: [(shoal.amplify(shoal.OneBitMean(local_epsilon=1.0), reports=2000), 12)],
    }
    for (name, mixture), method in itertools.product(mixtures.items(), METHODS):

        def mixed(mixture: Callable[[], list[Any]] = mixture, method: str = method) -> Parts:
            curve = shoal.compose(mixture(), method=method)
            return {
                "facts": lambda: numbers(curve.to_dict(delta=1e-6)),
                "ρ": lambda: curve.renyi([2.0, 16.0]),
            }

        yield Case(f"compose/{method}/{name}", mixed)


def _ledgers() -> Iterator[Case]:
    for local, reports, budget, planned in itertools.product((0.5, 2.0), (2000, 10**5), (0.3,), (False, True)):

        def parts(
            local: float = local, reports: int = reports, budget: float = budget, planned: bool = planned
        ) -> Parts:
            ledger, asked = shoal.Ledger(), {"epsilon": budget, "delta": 1e-6, "planned": planned}
            curve = shoal.amplify(local_epsilon=local, reports=reports)
            other = shoal.amplify(local_epsilon=1.0, reports=5000)

            def taken() -> list[Any]:
                said: list[Any] = []
                for times in (1, 2, 1, 9):
                    try:
                        with ledger.budget(curve, times=times, **asked):  # type: ignore[arg-type]
                            said.append(True)
                    except shoal.BudgetError:
                        said.append(False)
                return said

            return {
                "taken": taken,
                "spent": lambda: [ledger.spent(delta) for delta in (1e-4, 1e-6)],
                "left": lambda: ledger.remaining(epsilon=budget, delta=1e-6),
                "affords": lambda: [
                    ledger.affords(other, times=times, **asked)  # type: ignore[arg-type]
                    for times in (1, 16)
                ],
                "another": lambda: ledger.affords(other, epsilon=2 * budget, delta=1e-6),
                "times": lambda: [entry.times for entry in ledger.entries],
                "recorded": lambda: [ledger.record(other, times=2).times, ledger.spent(1e-6), len(ledger)],
            }

        yield Case(f"ledger/ε₀={local:g}/n={reports}/ε={budget:g}/{'planned' if planned else 'chosen'}", parts)


# Training.


def _runs() -> Iterator[tuple[str, dict[str, Any]]]:
    for examples, batch, noise, epochs in itertools.product((1000, 60_000), (1, 64), (1.0, 4.0, 20.0), (1, 5)):
        yield (
            f"n={examples}/b={batch}/σ={noise:g}/×{epochs}",
            {"examples": examples, "batch_size": batch, "noise_multiplier": noise, "epochs": epochs},
        )
    base = {"examples": 5000, "batch_size": 100, "noise_multiplier": 6.0, "epochs": 2}
    changes: tuple[dict[str, Any], ...] = (
        {"adjacency": "zero-out"},
        {"noise": "example"},
        {"noise": "example", "releases": "sums"},
        {"noise": "example", "adjacency": "zero-out"},
        {"order": "kept"},
        {"clip_norm": 3.0},
        {"batch_size": 64, "adjacency": "zero-out"},
        {"batch_size": 5000},
    )
    for change in changes:
        yield ",".join(f"{name}={value}" for name, value in change.items()), base | change


def _training() -> Iterator[Case]:
    for (name, fields), delta in itertools.product(_runs(), (1e-5, 1e-8)):

        def parts(fields: dict[str, Any] = fields, delta: float = delta) -> Parts:
            run = run_of(fields)
            found = guarantee(run, delta)
            theorems = {f"{_name(other.name)}-{other.elements}": other.epsilon for other in found.alternatives}
            return {
                "ε": lambda: (found.epsilon, _name(found.bound), found.local_epsilon, found.plain_epsilon),
                "other": lambda: theorems,
                "limit": lambda: sgd.lower_bound(run, delta=delta),
                "run": lambda: (run.steps, run.slots, run.sum_deviation, run.sum_multiplier, run.slot_multiplier),
            }

        yield Case(f"sgd/{name}/δ={delta:g}", parts)
    for (name, fields), epsilon in itertools.product(_runs(), (1.5,)):
        if not name.startswith(("n=1000/b=64/σ=4", "adjacency=zero-out", "order")):
            continue  # seconds each

        def noise(fields: dict[str, Any] = fields, epsilon: float = epsilon) -> Parts:
            return {"σ": lambda: calibrated(run_of(fields), epsilon, 1e-6)}

        yield Case(f"sgd-calibrate/{name}/ε={epsilon:g}", noise)


def _accounts() -> Iterator[Case]:
    for noise, adjacency in itertools.product((0.8, 10.0), ("replace", "zero-out")):

        def poisson(noise: float = noise, adjacency: str = adjacency) -> Parts:
            run = sgd.Run(examples=1200, batch_size=60, noise_multiplier=noise, adjacency=adjacency)
            found = sgd.poisson_comparison(run, delta=1e-6)
            return {"": lambda: (found.guarantee.epsilon, found.least, found.poisson_epsilon, found.valid)}

        yield Case(f"poisson/σ={noise:g}/{adjacency}", poisson)
    for noise, budget in itertools.product((8.0, 30.0), (None, 1.0)):

        def account(noise: float = noise, budget: float | None = budget) -> Parts:
            run = sgd.Run(examples=20_000, batch_size=50, noise_multiplier=noise)
            book = sgd.Account(run, delta=1e-6, budget=budget)

            def charged() -> list[Any]:
                said = []
                for _ in range(3):
                    book.charge()
                    said.append((book.epochs, book.epsilon))
                return said

            return {"most": lambda: book.most, "charged": charged, "spent": lambda: [book.spent(9), book.spent(0)]}

        yield Case(f"account/σ={noise:g}/ε={budget or 'any'}", account)
    for epsilon, adjacency in itertools.product((0.5, 2.0, 8.0), ("replace", "zero-out")):

        def filtered(epsilon: float = epsilon, adjacency: str = adjacency) -> Parts:
            budget = sgd.Filter(epsilon=epsilon, delta=1e-6, adjacency=adjacency)
            runs = [
                sgd.Run(
                    examples=9000, batch_size=90, noise_multiplier=noise, epochs=epochs, noise=kind, adjacency=adjacency
                )
                for noise, epochs, kind in ((40.0, 3, "batch"), (15.0, 1, "batch"), (6.0, 2, "example"))
            ]

            def charged(run: sgd.Run) -> Any:
                budget.charge(run)
                return budget.used

            parts: dict[str, Callable[[], Any]] = {}
            for index, run in enumerate(runs):
                parts[f"{index}"] = lambda run=run: (budget.cost(run), budget.affords(run), budget.left(run))  # type: ignore[misc]
                parts[f"{index}.used"] = lambda run=run: charged(run)  # type: ignore[misc]
            return parts

        yield Case(f"filter/ε={epsilon:g}/{adjacency}", filtered)


def _models() -> Iterator[Case]:
    """Ask for the weights of small trainings on simulated coins: plain sums, of which a BLAS may choose the order."""
    kinds: dict[str, type[Any]] = {"central": sgd.PrivateLogisticRegression, "local": sgd.LocalLogisticRegression}
    settings: tuple[tuple[str, dict[str, Any]], ...] = (
        ("plain", {"noise_multiplier": 2.0}),
        ("epochs", {"noise_multiplier": 1.0, "epochs": 3, "batch_size": 50}),
        ("penalty", {"noise_multiplier": 1.0, "regularization": 0.1, "average": False}),
        ("bare", {"noise_multiplier": 1.0, "fit_intercept": False, "adjacency": "zero-out", "clip_norm": 0.5}),
        ("calibrated", {"epsilon": 2.0, "batch_size": 100}),
    )
    for (name, kind), (how, setting), classes in itertools.product(kinds.items(), settings, (2, 3)):

        def parts(kind: type[Any] = kind, setting: dict[str, Any] = setting, classes: int = classes) -> Parts:
            rows = np.stack([np.arange(600) * step % 97 / 48 - 1 for step in (1, 5, 11)], axis=1)
            labels = (np.arange(600) % 97 * classes // 97).astype(int)
            names = list(range(classes))
            model = kind(**setting, classes=names, simulation=shoal.Simulation(seed=3)).fit(rows, labels)
            return {
                "weights": lambda: (model.coef_, model.intercept_),
                "rates": lambda: (model.noise_multiplier_, model.learning_rate_, model.n_iter_),
                "ε": lambda: model.guarantee_.epsilon,
                "probabilities": lambda: some(model.predict_proba(rows[:5])),
                "score": lambda: model.score(rows, labels),
            }

        yield Case(f"model/{name}/{how}/classes={classes}", parts)


# Collections, and the command line.


def _tasks() -> Iterator[Case]:
    for (name, kind), fakes in itertools.product(CATEGORICAL.items(), (0, 50)):

        def parts(kind: Callable[..., Any] = kind, fakes: int = fakes) -> Parts:
            agreed = task(kind(categories=12, local_epsilon=2.0), fakes=fakes, minimum=1000)
            return {
                "bytes": lambda: (agreed.plaintext_bytes, agreed.ciphertext_bytes),
                "minimum": lambda: agreed.minimum,
                "ε": lambda: [agreed.central(valid).epsilon(1e-6) for valid in (1, 1000, 4000)],
            }

        yield Case(f"task/{name}/m={fakes}", parts)

        def named(kind: Callable[..., Any] = kind, fakes: int = fakes) -> Parts:
            agreed = task(kind(categories=12, local_epsilon=2.0), fakes=fakes, minimum=1000)
            return {"id": lambda: agreed.id[:16]}

        yield Case(f"wire/task/{name}/m={fakes}", named)  # the hash of all of its fields, names of fields included


_LINES = (
    "amplify --local-epsilon 1 --reports 10_000",
    "amplify --local-epsilon 1 --reports 10_000 --certify",
    "amplify --local-epsilon 2 --reports 1e6 --delta 1e-8 --bound clones",
    "amplify --local-epsilon 2 --reports 1e4 --local-delta 1e-12",
    "amplify --local-epsilon 2 --reports 1e4 --categories 100",
    "amplify --randomizer one-bit-mean --local-epsilon 2 --reports 1e4",
    "amplify --randomizer rappor --categories 20 --local-epsilon 2 --reports 1e4",
    "amplify --local-epsilon 2 --reports 0",
    "amplify --local-epsilon 2 --reports 100 --bound nothing",
    "amplify --reports 100",
    "calibrate --epsilon 1 --reports 10_000",
    "calibrate --epsilon 0.1 --local-epsilon 2",
    "calibrate --epsilon 0.5 --reports 3000 --categories 10",
    "calibrate --epsilon 0.5 --reports 3000 --randomizer hadamard-response --categories 10",
    "calibrate --epsilon 0.5",
    "compare --local-epsilon 4 --reports 1e6",
    "compare --local-epsilon 1 --reports 500 --categories 2",
    "compare --local-epsilon 2 --local-delta 1e-13 --reports 1e5",
    "compose --local-epsilon 2 --reports 1e6 --times 365",
    "compose --local-epsilon 2 --reports 1e6 --times 365 --method renyi",
    "compose --local-epsilon 2 --reports 1e6 --times 365 --method advanced",
    "compose --local-epsilon 2 --reports 1e6 --times 365 --method advanced-closed-form",
    "compose --local-epsilon 1 --categories 10 --reports 1e4 --times 10",
    "plan --categories 5 --reports 2000 --epsilon 0.5",
    "simulate --people 2000 --categories 6 --mechanism rappor --local-epsilon 2 --trials 3",
    "simulate --people 2000 --categories 6 --mechanism subset-selection --local-epsilon 1 --trials 3 --seed 9",
    "sgd --examples 60_000 --batch-size 64 --noise-multiplier 2",
    "sgd --examples 60_000 --batch-size 64 --noise-multiplier 16 --epochs 3 --adjacency zero-out",
    "sgd --examples 5000 --epsilon 1",
    "explain",
    "explain strong-clones",
    "explain nothing",
)


def _printed(line: str) -> dict[str, Any]:
    """Return the exit status of a command, and the numbers in the JSON that it prints."""
    output = io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(io.StringIO()):
        status = cli.main([*line.split(), "--json"])
    return {"status": status, "json": numbers(json.loads(output.getvalue())) if output.getvalue() else None}


def _commands() -> Iterator[Case]:
    for line in _LINES:
        yield Case(f"command/{line}", lambda line=line: {"": lambda: _printed(line)})  # type: ignore[misc]

    def ledger() -> Parts:
        with tempfile.TemporaryDirectory() as folder:
            book = Path(folder) / "ledger.json"
            budget = "--local-epsilon 1 --reports 1e4 --epsilon 0.1"
            lines = [f"ledger record {book} {budget}" for _ in range(4)] + [f"ledger show {book}"]
            printed = [_printed(line) for line in lines]
        return {"": lambda: printed}

    yield Case("command/ledger", ledger)


def _refusals() -> Iterator[Case]:
    asked: dict[str, Callable[[], Any]] = {
        "amplify/n=0": lambda: shoal.amplify(local_epsilon=1, reports=0),
        "amplify/n=1.5": lambda: shoal.amplify(local_epsilon=1, reports=1.5),
        "amplify/n=nan": lambda: shoal.amplify(local_epsilon=1, reports=math.nan),
        "amplify/ε₀=-1": lambda: shoal.amplify(local_epsilon=-1, reports=10),
        "amplify/ε₀=inf": lambda: shoal.amplify(local_epsilon=math.inf, reports=10),
        "amplify/nothing": lambda: shoal.amplify(reports=10),
        "amplify/bound": lambda: shoal.amplify(local_epsilon=1, reports=10, bound="none"),
        "amplify/check-ins": lambda: shoal.amplify(local_epsilon=1, reports=10, bound="check-ins"),
        "amplify/bassily": lambda: shoal.amplify(local_epsilon=1, reports=10, bound="bassily"),
        "amplify/δ₀=1": lambda: shoal.amplify(local_epsilon=1, reports=10, local_delta=1),
        "amplify/δ₀/koskela": lambda: shoal.amplify(local_epsilon=1, reports=10, local_delta=1e-9, bound="koskela"),
        "epsilon/δ=1": lambda: shoal.amplify(local_epsilon=1, reports=10).epsilon(1),
        "epsilon/δ=-1": lambda: shoal.amplify(local_epsilon=1, reports=10).epsilon(-1),
        "delta/ε=-1": lambda: shoal.amplify(local_epsilon=1, reports=10).delta(-1),
        "renyi/1": lambda: shoal.amplify(local_epsilon=1, reports=10).renyi(1),
        "renyi/form": lambda: shoal.amplify(local_epsilon=1, reports=10**6, bound="clones-closed-form").renyi(2),
        "decomposition/p": lambda: decomposition(0.4, 0.4, 1.0),
        "decomposition/q": lambda: decomposition(0.1, 1.4, 1.0),
        "decomposition/ε₀": lambda: decomposition(0.1, 0.4, 9.0),
        "calibrate/both": lambda: shoal.calibrate(epsilon=1, delta=1e-6, reports=10, local_epsilon=1),
        "calibrate/δ=0": lambda: shoal.calibrate(epsilon=1, delta=0, reports=10),
        "calibrate/never": lambda: shoal.calibrate(epsilon=1e-9, delta=1e-9, local_epsilon=9),
        "compose/none": lambda: shoal.compose([]),
        "compose/method": lambda: shoal.compose([shoal.amplify(local_epsilon=1, reports=9)], method="none"),
        "response/k=1": lambda: shoal.RandomizedResponse(categories=1, local_epsilon=1),
        "response/values": lambda: shoal.RandomizedResponse(categories=3, local_epsilon=1).randomize([3]),
        "response/reports": lambda: shoal.RandomizedResponse(categories=3, local_epsilon=1).aggregate([3]),
        "response/bytes": lambda: shoal.RandomizedResponse(categories=300, local_epsilon=1).from_bytes(b"123"),
        "subset/size": lambda: shoal.SubsetSelection(categories=3, local_epsilon=1, size=3),
        "hadamard/blocks": lambda: shoal.HadamardResponse(categories=3, local_epsilon=1, blocks=3),
        "hashing/buckets": lambda: shoal.LocalHashing(categories=3, local_epsilon=1, buckets=4),
        "laplace/ends": lambda: shoal.Laplace(local_epsilon=1, lower=1, upper=0),
        "laplace/values": lambda: shoal.Laplace(local_epsilon=1).randomize([1.5]),
        "gaussian/σ": lambda: shoal.Gaussian(deviation=0),
        "plan/k": lambda: shoal.plan(categories=1, reports=10, epsilon=1),
        "audit/few": lambda: shoal.audit(shoal.RandomizedResponse(categories=3, local_epsilon=1), trials=1),
        "sweep/δ": lambda: shoal.sweep(local_epsilon=1, reports=10, delta=2),
        "certificate": lambda: shoal.Certificate.from_json("{}"),
        "run/b": lambda: sgd.Run(examples=10, batch_size=11, noise_multiplier=1),
        "run/add-remove": lambda: sgd.Run(examples=10, noise_multiplier=1, adjacency="add-remove"),
        "run/σ": lambda: sgd.Run(examples=10, noise_multiplier=0),
        "account/budget": lambda: sgd.Account(sgd.Run(examples=10, noise_multiplier=1), delta=1e-6, budget=1e-3),
        "model/unfitted": lambda: sgd.PrivateLogisticRegression(noise_multiplier=1).predict([[1.0]]),
    }
    for name, ask in asked.items():
        yield Case(f"refused/{name}", lambda ask=ask: {"": lambda: type(ask()).__name__})  # type: ignore[misc]


def cases() -> list[Case]:
    """Return all cases, in the order of the file."""
    families = (
        _amplify(),
        _lower(),
        _approximate(),
        _decompositions(),
        _renyi(),
        _compare(),
        _certify(),
        _calibrate(),
        _mechanisms(),
        _randomizers(),
        _noise(),
        _audits(),
        _plans(),
        _sweeps(),
        _compositions(),
        _ledgers(),
        _training(),
        _accounts(),
        _models(),
        _tasks(),
        _commands(),
        _refusals(),
    )
    return list(itertools.chain.from_iterable(families))
