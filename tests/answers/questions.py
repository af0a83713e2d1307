"""The questions: settings of the public interface whose answers are bounds, each with a proven end.

A case asks for several bounds of one object, such as ε of one curve at several δ. Each question has
three parts. `value` is the answer of today. `end` is a number that is proven by other means and that no
true answer may cross. `proof` names the argument:

- "limit": a lower bound on every valid guarantee of the setting (`shoal.lower_bound`, `curve.lower`,
  `sgd.lower_bound`): some data and some randomizer reach it. An answer below it is false.
- "pair": the lower end of the bracket around the exact ε of the dominating pair of the theorem that is
  named. An answer below it is not the value of that theorem.
- "bound": for questions about lower bounds, the upper bound of the same setting. A lower bound above it
  is false.
- "none": no proven end is known, and 0 stands in its place: closed forms of decompositions and of
  rounds without pairs, and Rényi divergences. Only growth is noticed there.

Simulations, estimates, texts and formats are not asked for, because other tests compare them.
"""

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import shoal
from shoal import sgd
from shoal.lower_limit import LowerBound

WITHDRAWN: dict[str, str] = {}
"""Rows that are no longer asked, and why: the key of the row → which defect made its numbers false."""

GENERIC = (
    "tightest", "strong-clones", "clones", "clones-closed-form", "clones-sharp-form", "strong-clones-sharp-form",
    "blanket-bennett", "blanket-hoeffding", "girgis", "koskela", "erlingsson",
)  # fmt: skip
METHODS = {"loss": "pld", "renyi": "renyi", "advanced": "advanced", "advanced-closed-form": "advanced-closed-form"}
"""Methods of composition, by their names in the keys of rows."""
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
class Question:
    """A question whose answer is a bound.

    Attributes
    ----------
    name : ε, δ or ρ, and where.
    value : asks.
    end : returns the number that no true answer crosses, and which proof it has.
    """

    name: str
    value: Callable[[], float]
    end: Callable[[], tuple[float, str]]

    @property
    def lower(self) -> bool:
        """True for a lower bound, whose proven end is above it."""
        return self.name.startswith("at least ")


@dataclass(frozen=True)
class Case:
    """Questions about one object.

    Attributes
    ----------
    key : family, then the setting.
    questions : returns them; none of the work is done before it is called.
    """

    key: str
    questions: Callable[[], list[Question]]

    @property
    def family(self) -> str:
        """The first word of the key."""
        return self.key.partition("/")[0]


def _nothing() -> tuple[float, str]:
    return 0.0, "none"


def _of_curve(
    curve: shoal.PrivacyCurve,
    deltas: tuple[float, ...],
    shares: tuple[float, ...] = (),
    *,
    limit: LowerBound | None = None,
    pair: bool = False,
) -> list[Question]:
    """Ask for ε at several δ and for δ at several parts of ε₀; `pair` for theorems that are named."""
    limit = curve.lower if limit is None else limit

    def epsilon_end(delta: float) -> tuple[float, str]:
        if pair:
            try:
                return curve.epsilon_bracket(delta).lower, "pair"
            except shoal.ShoalError:
                pass
        return _nothing() if limit is None else (limit.epsilon(delta), "limit")

    def delta_end(epsilon: float) -> tuple[float, str]:
        return _nothing() if limit is None else (limit.delta(epsilon), "limit")

    local = curve.local_epsilon if math.isfinite(curve.local_epsilon) else 2.0
    return [
        *(Question(f"ε({at:g})", partial(curve.epsilon, at), partial(epsilon_end, at)) for at in deltas),
        *(
            Question(f"δ({share:g}ε₀)", partial(curve.delta, share * local), partial(delta_end, share * local))
            for share in shares
        ),
    ]


# One round.


def _amplify() -> Iterator[Case]:
    for bound, local, reports in itertools.product(
        GENERIC, (0.1, 0.5, 1.0, 2.0, 4.0, 8.0), (1, 2, 30, 1000, 10**5, 10**7, 10**10)
    ):
        if bound in ("tightest", "girgis", "koskela") and reports not in (2, 1000, 10**7):
            continue

        def ask(bound: str = bound, local: float = local, reports: int = reports) -> list[Question]:
            curve = shoal.amplify(local_epsilon=local, reports=reports, bound=bound)
            limit = shoal.lower_bound(local_epsilon=local, reports=reports)
            return _of_curve(curve, (1e-3, 1e-6, 1e-10), (0.1, 0.5), limit=limit, pair=bound != "tightest")

        yield Case(f"amplify/{bound}/ε₀={local:g}/n={reports}", ask)


def _lower() -> Iterator[Case]:
    for categories, local, reports in itertools.product((None, 2, 3, 20), (0.2, 1.0, 4.0), (1, 50, 10**4, 10**8)):

        def ask(categories: int | None = categories, local: float = local, reports: int = reports) -> list[Question]:
            limit = shoal.lower_bound(local_epsilon=local, reports=reports, categories=categories)
            above = shoal.amplify(local_epsilon=local, reports=reports)
            return [
                *(
                    Question(
                        f"at least ε({at:g})",
                        partial(limit.epsilon, at),
                        lambda at=at: (above.epsilon(at), "bound"),  # type: ignore[misc]
                    )
                    for at in (1e-3, 1e-6, 1e-10)
                ),
                *(
                    Question(
                        f"at least δ({share:g}ε₀)",
                        partial(limit.delta, share * local),
                        lambda share=share: (above.delta(share * local), "bound"),  # type: ignore[misc]
                    )
                    for share in (0.0, 0.1, 0.5)
                ),
            ]

        yield Case(f"lower/k={categories or 'any'}/ε₀={local:g}/n={reports}", ask)


def _approximate() -> Iterator[Case]:
    for bound, local_delta, local, reports in itertools.product(
        ("tightest", "strong-clones", "clones"), (1e-15, 1e-11, 1e-8), (0.5, 2.0, 5.0), (10, 10**4, 10**6)
    ):

        def ask(
            bound: str = bound, local: float = local, reports: int = reports, local_delta: float = local_delta
        ) -> list[Question]:
            curve = shoal.amplify(local_epsilon=local, local_delta=local_delta, reports=reports, bound=bound)
            limit = shoal.lower_bound(local_epsilon=local, reports=reports)  # of randomizers with δ₀ = 0, too
            return _of_curve(curve, (1e-2, 1e-6), (0.3, 1.0), limit=limit)

        yield Case(f"approximate/{bound}/δ₀={local_delta:g}/ε₀={local:g}/n={reports}", ask)


def _decompositions() -> Iterator[Case]:
    bounds = ("tightest", "decomposition", "decomposition-closed-form", "strong-clones", "blanket")
    for (blanket, own, local), reports, bound in itertools.product(
        ((0.05, 0.4, 2.0), (0.2, 0.3, 0.7), (0.01, 0.9, 4.0), (0.3, 0.04, 0.1)), (1, 100, 10**4, 10**7), bounds
    ):

        def ask(
            blanket: float = blanket, own: float = own, local: float = local, reports: int = reports, bound: str = bound
        ) -> list[Question]:
            known = shoal.Decomposition(blanket_probability=blanket, own_probability=own, local_epsilon=local)
            curve = shoal.amplify(known, reports=reports, bound=bound)
            return _of_curve(curve, (1e-3, 1e-6, 1e-10), (0.1, 0.5), pair=bound != "tightest")

        yield Case(f"decomposition/p={blanket:g}/q={own:g}/{bound}/n={reports}", ask)


def _renyi() -> Iterator[Case]:
    for bound, local, reports in itertools.product(
        ("strong-clones", "clones", "koskela", "girgis"), (0.3, 1.0, 4.0), (1, 100, 10**6)
    ):

        def ask(bound: str = bound, local: float = local, reports: int = reports) -> list[Question]:
            curve = shoal.amplify(local_epsilon=local, reports=reports, bound=bound)
            orders = (1.001, 1.5, 2.0, 8.0, 64.0, 1000.0)
            return [Question(f"ρ({order:g})", partial(curve.renyi, order), _nothing) for order in orders]

        yield Case(f"renyi/{bound}/ε₀={local:g}/n={reports}", ask)


# Mechanisms.


def _kinds() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield mechanisms for categories with their own parameters, and several numbers of categories."""
    for (name, kind), size, local in itertools.product(CATEGORICAL.items(), (2, 5, 300), (0.4, 2.5)):
        yield f"{name}/k={size}/ε₀={local:g}", partial(kind, categories=size, local_epsilon=local)
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
        yield f"{name}/k=20/ε₀=2/{told}", partial(CATEGORICAL[name], categories=20, local_epsilon=2.0, **given)


def _randomizers() -> Iterator[Case]:
    for (name, made), reports in itertools.product(_kinds(), (3, 100, 10**5)):

        def ask(made: Callable[[], Any] = made, reports: int = reports) -> list[Question]:
            return _of_curve(shoal.amplify(made(), reports=reports), (1e-3, 1e-7), (0.3,))

        yield Case(f"randomizer/{name}/n={reports}", ask)
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

        def by_formula(made: Callable[[], Any] = made, bound: str = bound, reports: int = reports) -> list[Question]:
            return _of_curve(shoal.amplify(made(), reports=reports, bound=bound), (1e-3, 1e-7), (0.3,))

        yield Case(f"formula/{name}/{bound}/n={reports}", by_formula)


def _noise() -> Iterator[Case]:
    kinds: dict[str, Callable[[], Any]] = {
        "one-bit-mean/ε₀=0.5": lambda: shoal.OneBitMean(local_epsilon=0.5),
        "one-bit-mean/ε₀=4": lambda: shoal.OneBitMean(local_epsilon=4.0),
        "laplace/ε₀=0.5": lambda: shoal.Laplace(local_epsilon=0.5),
        "laplace/ε₀=3": lambda: shoal.Laplace(local_epsilon=3.0),
        "gaussian/σ=1": lambda: shoal.Gaussian(sigma=1.0),
        "gaussian/σ=3": lambda: shoal.Gaussian(sigma=3.0),
    }
    for (name, made), reports in itertools.product(kinds.items(), (1000, 10**5)):
        if name.startswith("laplace") and reports < 10**5:
            continue  # ten seconds each

        def ask(made: Callable[[], Any] = made, reports: int = reports) -> list[Question]:
            return _of_curve(shoal.amplify(made(), reports=reports), (1e-6,), (0.1,))

        yield Case(f"noise/{name}/n={reports}", ask)


# Many rounds.


def _composed(rounds: Callable[[], list[Any]], method: str) -> list[Question]:
    """Ask for ε; every method is above the lower end of the exact composition of the pairs."""
    curve = shoal.compose(rounds(), method=method)

    def end() -> tuple[float, str]:
        try:
            return shoal.compose(rounds(), method="pld").epsilon_bracket(1e-6).lower, "pair"
        except shoal.ShoalError:
            return _nothing()

    return [Question("ε(1e-06)", partial(curve.epsilon, 1e-6), end)]


def _compositions() -> Iterator[Case]:
    for method, bound, local, reports, times in itertools.product(
        METHODS, ("strong-clones", "clones", "clones-closed-form"), (0.3, 1.0, 3.0), (10**4, 10**6), (1, 3, 100)
    ):
        if method.startswith("advanced") and (local != 1 or times == 100):
            continue  # seconds each

        def ask(
            method: str = method, bound: str = bound, local: float = local, reports: int = reports, times: int = times
        ) -> list[Question]:
            return _composed(
                lambda: [(shoal.amplify(local_epsilon=local, reports=reports, bound=bound), times)], METHODS[method]
            )

        yield Case(f"compose/{method}/{bound}/ε₀={local:g}/n={reports}/×{times}", ask)
    known = partial(shoal.Decomposition, blanket_probability=0.05, own_probability=0.4, local_epsilon=2.0)
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
            shoal.amplify(known(), reports=10**4),
        ],
        "formula": lambda: [
            shoal.amplify(local_epsilon=1, reports=10**5, bound="clones-closed-form"),
            (shoal.amplify(local_epsilon=1, reports=10**5), 4),
        ],
        "one-bit-mean": lambda: [(shoal.amplify(shoal.OneBitMean(local_epsilon=1.0), reports=2000), 12)],
    }
    for (name, mixture), method in itertools.product(mixtures.items(), METHODS):
        yield Case(f"compose/{method}/{name}", partial(_composed, mixture, METHODS[method]))


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
        {"sampling": "fixed-order"},
        {"sampling": "allocation"},
        {"sampling": "allocation", "noise_multiplier": 1.0, "adjacency": "zero-out"},
        {"sampling": "poisson"},
        {"clip_norm": 3.0},
        {"batch_size": 64, "adjacency": "zero-out"},
        {"batch_size": 5000},
    )
    for change in changes:
        yield ",".join(f"{name}={value}" for name, value in change.items()), base | change


def _training() -> Iterator[Case]:
    for (name, fields), delta in itertools.product(_runs(), (1e-5, 1e-8)):

        def ask(fields: dict[str, Any] = fields, delta: float = delta) -> list[Question]:
            run = sgd.Run(**fields)
            found = sgd.guarantee(run, delta=delta)

            def end() -> tuple[float, str]:
                return sgd.lower_bound(run, delta=delta), "limit"

            answers = {"ε": found.epsilon, "ε without sampling": found.plain_epsilon}
            return [Question(name, partial(float, epsilon), end) for name, epsilon in answers.items()]

        yield Case(f"sgd/{name}/δ={delta:g}", ask)


def cases() -> list[Case]:
    """Return all cases, in the order of the file."""
    families = (
        _amplify(),
        _lower(),
        _approximate(),
        _decompositions(),
        _renyi(),
        _randomizers(),
        _noise(),
        _compositions(),
        _training(),
    )
    return list(itertools.chain.from_iterable(families))
