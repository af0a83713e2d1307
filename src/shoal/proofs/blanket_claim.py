"""Claims about one mechanism, by its blanket (Theorem B): W from the parameters of the mechanism.

An output of a mechanism that prefers the truth supports some inputs, which report it e^ε₀ times as often. How often a
uniform output supports neither, one or both of the two inputs that are the easiest to tell apart, and how often all,
is all that matters (docs/theory/frequency.md, statements 1 and 2). Of a table, all pairs of inputs are looked at. With
noise on values in [0, 1], 0 and 1 are the easiest to tell apart, and W comes from cells along the noised value. W falls
with it, and is the same for both directions, by symmetry (docs/theory/blanket.md).
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from inspect import signature
from itertools import permutations
from typing import Any

from flint import arb

from shoal.assumptions import BLANKET, DESCRIBED, FIXED
from shoal.errors import ParameterError
from shoal.proofs.balls import ZERO, Ball, Summand, ball, normal
from shoal.proofs.cells import MOST_CELLS, Edge, celled, check_cells, edges_cost, normal_cells
from shoal.proofs.claim import Claim, RoundClaim, count, digest, double, least_local_epsilon
from shoal.proofs.work import keep, spend

Shares = tuple[Any, Any, Any, Any]
"""How often an output supports neither of two inputs, the first alone, both but not all, all: fractions or balls."""

_MOST = 10**18  # the largest parameter of a design
_MOST_ENTRIES = 1 << 14  # of a table: more take longer than a proof may
_MOST_INPUTS = 128  # all pairs of inputs are looked at, at every ε
# Of a cell of Gaussian noise, in standard deviations, for one round and for many: narrower cells take longer and lower
# ε.
_WIDTH, _COARSE = 0.02, 0.04
# Pairs of cells for Laplace noise: at least the first number, and the second one times ε₀.
_FEWEST, _PER_EPSILON = 150.0, 80.0


class _BlanketClaim(RoundClaim):
    """A claim about a mechanism that does what its parameters say."""

    theorem = BLANKET
    assumptions = (DESCRIBED, *FIXED)


def _blocked(outputs: int, supporting: int, common: int, blocks: int, everybody: int = 0) -> Shares:
    if not 0 <= common <= supporting <= outputs - supporting + common or blocks < 1:
        raise ParameterError(f"{outputs}, {supporting}, {common} and {blocks} are no design")
    common = common if blocks == 1 else 0
    return (
        Fraction(outputs - 2 * supporting + common, outputs),
        Fraction(supporting - common, outputs),
        Fraction(common - everybody, outputs),
        Fraction(everybody, outputs),
    )


def _power_of_two(blocks: int) -> None:
    if blocks & (blocks - 1):
        raise ParameterError(f"blocks must be a power of two, got {blocks}")


def _hadamard(_: float, categories: int, blocks: int) -> Shares:
    _power_of_two(blocks)
    order = 1 << (-(-categories // blocks)).bit_length()
    return _blocked(blocks * order, order // 2, order // 4, blocks, int(blocks == 1))


def _recursive(_: float, categories: int, blocks: int) -> Shares:
    _power_of_two(blocks)
    rows = 1 << (-(-categories // blocks) - 1).bit_length()  # a power of two
    return _blocked(2 * rows * blocks, rows, rows // 2, blocks, int(blocks == 1))


def _independent(_: float, categories: int, order: int, window: int) -> Shares:
    share = Fraction(window, order)
    if not share < 1:
        raise ParameterError(f"window must be less than order={order}, got {window}")
    return (1 - share) ** 2, share * (1 - share), share * share, Fraction(0)


def _projective(_: float, categories: int, order: int, dimension: int, blocks: int) -> Shares:
    if order < 2 or not 2 <= dimension <= 64 or order**dimension > 10**40:
        raise ParameterError(f"order={order} and dimension={dimension} are no projective space that is used")
    every, support, common = ((order ** (dimension - less) - 1) // (order - 1) for less in (0, 1, 2))
    if blocks * every < categories:
        raise ParameterError(f"{blocks} spaces of {every} points are too few for {categories} categories")
    return _blocked(blocks * every, support, common, blocks)


def _subsets(_: float, categories: int, subset_size: int) -> Shares:
    if not subset_size < categories:
        raise ParameterError(f"a subset has fewer than categories={categories}, got {subset_size}")
    support = subset_size * (categories - 1)
    return _blocked(categories * (categories - 1), support, subset_size * (subset_size - 1), 1)


def _bits(local_epsilon: float, categories: int) -> Shares:
    """Independent bits, each set with odds e^−ε : 1 unless it is the true one."""
    small = (-ball(local_epsilon)).exp()
    clear = 1 / (1 + small)
    set_ = small * clear
    every = set_**categories
    return clear * clear, set_ * clear, set_ * set_ - every, every


DESIGNS: dict[str, Callable[..., Shares]] = {
    "randomized-response": lambda _, categories: _blocked(categories, 1, 0, 1),
    "one-bit-mean": lambda _: _blocked(2, 1, 0, 1),
    "hadamard-response": _hadamard,
    "recursive-hadamard-response": _recursive,
    "subset-selection": _subsets,
    "projective-geometry-response": _projective,
    "private-independent-rappor": _independent,
    "local-hashing": lambda _, categories, buckets: _independent(_, categories, buckets, 1),
    "unary-encoding": _bits,
    "rappor": lambda local_epsilon, categories: _bits(local_epsilon / 2, categories),
    "design": lambda _, outputs, supporting, common, blocks: _blocked(outputs, supporting, common, blocks),
}
"""By the name of a mechanism: the shares of its outputs, as a function of ε₀ and of its parameters by their names."""


def _parameters(mechanism: str) -> tuple[str, ...]:
    """Return the names of the parameters of a mechanism, without ε₀."""
    return tuple(signature(DESIGNS[mechanism]).parameters)[1:]


@dataclass(frozen=True)
class SupportClaim(_BlanketClaim, name="support"):
    """The blanket of a mechanism by its name, or of a design by its numbers."""

    reports: int
    local_epsilon: float
    mechanism: str
    parameters: Mapping[str, int] = field(hash=False)

    def _check(self) -> None:
        double(0.0, 700.0, local_epsilon=self.local_epsilon)
        if not isinstance(self.mechanism, str) or self.mechanism not in DESIGNS:
            raise ParameterError(f"no mechanism {self.mechanism!r:.40} is known here, only {', '.join(DESIGNS)}")
        names = _parameters(self.mechanism)
        if not isinstance(self.parameters, Mapping) or set(self.parameters) != set(names):
            raise ParameterError(f"{self.mechanism} has the parameters {', '.join(names) or 'of none'}")
        for name in names:
            least = 2 if name in ("categories", "order", "buckets", "outputs") else 0 if name == "common" else 1
            count(least, _MOST, **{name: self.parameters[name]})
        object.__setattr__(self, "parameters", {name: self.parameters[name] for name in names})
        self.shares()

    def shares(self) -> Shares:
        """Return how often an output supports neither, one, both, all."""
        return DESIGNS[self.mechanism](self.local_epsilon, *self.parameters.values())

    @property
    def subject(self) -> str:
        """The mechanism with its numbers."""
        numbers = {"local_epsilon": self.local_epsilon, **self.parameters}
        shown = ", ".join(f"{name}={value!r}" for name, value in numbers.items())
        return f"{self.reports:,} shuffled reports of {self.mechanism} with {shown}"

    def summands(self, growth: Ball) -> list[Summand]:
        """Return W relative to the blanket min R_x: c·B, but c·e^ε₀·B where an output supports all inputs."""
        neither, one, both, everybody = (
            ball(share) if isinstance(share, Fraction) else share for share in self.shares()
        )
        local = ball(self.local_epsilon).exp()
        high = 1 / ((neither + one) / local + one + both + everybody)
        low = high / local
        values = [local - growth, 1 - growth * local, 1 - growth]
        probabilities = [low * one, low * one, low * neither + high * everybody]
        if not both.is_zero():
            values.append(local * (1 - growth))
            probabilities.append(low * both)
        return [Summand(tuple(values), tuple(probabilities), ZERO)]


def support_claim(mechanism: Any, reports: int) -> SupportClaim:
    """Return the claim of a mechanism with a design: by its name if that has the same shares, else by its numbers."""
    design = mechanism.design
    numbers = {name: getattr(design, name) for name in ("outputs", "supporting", "common", "blocks")}
    plain = SupportClaim(reports, mechanism.local_epsilon, "design", numbers)
    if mechanism.name not in DESIGNS:
        return plain
    names = _parameters(mechanism.name)
    if not all(hasattr(mechanism, name) for name in names):
        return plain
    parameters = {name: getattr(mechanism, name) for name in names}
    named = SupportClaim(reports, mechanism.local_epsilon, mechanism.name, parameters)
    both = plain.shares()[2] - named.shares()[3]
    return named if named.shares()[:3] == (*plain.shares()[:2], both) else plain


@dataclass(frozen=True)
class MatrixClaim(_BlanketClaim, name="matrix"):
    """The blanket of a table: input x reports output y with probability weights[x][y] over the sum of the row.

    ε₀ is the least double that no ratio of two probabilities exceeds, which is checked in the integers.
    """

    reports: int
    local_epsilon: float
    weights: tuple[tuple[int, ...], ...]

    def _check(self) -> None:
        double(0.0, 700.0, local_epsilon=self.local_epsilon)
        rows = self.weights
        if not isinstance(rows, tuple) or not all(isinstance(row, tuple) for row in rows):
            raise ParameterError("the weights of a matrix are rows of whole numbers")
        if not 2 <= len(rows) <= _MOST_INPUTS or {len(row) for row in rows} != {len(rows[0])} or not rows[0]:
            raise ParameterError(f"a matrix has 2 to {_MOST_INPUTS} rows of the same length")
        if len(rows) * len(rows[0]) > _MOST_ENTRIES:
            raise ParameterError(f"a matrix may have {_MOST_ENTRIES:,} entries")
        for row in rows:
            for weight in row:
                count(1, 1 << 62, weight=weight)
        columns = zip(*self._common[1], strict=True)
        least_local_epsilon(self.local_epsilon, ((max(column), min(column)) for column in columns))

    @cached_property
    def _common(self) -> tuple[int, list[list[int]]]:
        """The same probabilities out of one total for all rows."""
        whole = math.lcm(*map(sum, self.weights))
        factors = [whole // sum(row) for row in self.weights]
        return whole, [[weight * factor for weight in row] for row, factor in zip(self.weights, factors, strict=True)]

    @cached_property
    def _pairs(self) -> list[list[tuple[int, int, int]]]:
        """(R₀, R₁, ω) of every output, for each ordered pair of inputs that is not the same as one before."""
        table = self._common[1]
        # Greatest common divisors take time in the square of the length, and three integers are kept per output.
        length = self._common[0].bit_length() / 1000
        spend(len(table) * (len(table) - 1) * len(table[0]) * (3 + length + length * length))
        least = [min(column) for column in zip(*table, strict=True)]
        seen: dict[tuple[tuple[int, int, int], ...], None] = {}
        for first, second in permutations(table, 2):
            merged: dict[tuple[int, int, int], int] = {}
            for row in zip(first, second, least, strict=True):
                size = math.gcd(*row)
                ratio = row[0] // size, row[1] // size, row[2] // size
                merged[ratio] = merged.get(ratio, 0) + size
            outcomes = tuple(sorted((size * a, size * b, size * c) for (a, b, c), size in merged.items()))
            if outcomes not in seen:
                keep(math.ceil(len(outcomes) * (3 + 2 * length)))  # and two balls each, while they are summed up
                seen[outcomes] = None
        return [list(pair) for pair in seen]

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers."""
        return super().to_dict() | {"weights": [list(row) for row in self.weights]}

    @classmethod
    def of_dict(cls, content: Mapping[str, Any]) -> Claim:
        """Return the claim with these numbers."""
        rows = content["weights"]
        return cls(**{**content, "weights": tuple(tuple(row) for row in rows)})

    @property
    def subject(self) -> str:
        """The size of the table, a digest of it, and its ε₀."""
        size = f"{len(self.weights)} inputs and {len(self.weights[0])} outputs (sha256 {digest(repr(self.weights))})"
        return f"{self.reports:,} shuffled reports of a matrix of {size}, local_epsilon={self.local_epsilon!r}"

    def summands(self, growth: Ball) -> list[Summand]:
        """Return W of every pair of inputs in both directions."""
        whole = self._common[0]
        spend(4 * sum(map(len, self._pairs)))
        return [
            Summand(
                tuple((first - growth * second) / reference for first, second, reference in pair),
                tuple(ball(reference) / whole for _, _, reference in pair),
                ZERO,
            )
            for pair in self._pairs
        ]


def _edge(index: int, ratio: Ball, first: Ball, second: Ball, rest: Ball) -> Edge:
    """Return the edge at which R₁ is `ratio` times R₀; `rest` is the part of ω before it where ω is R₁."""
    if index >= 0:  # ω is R₀
        return Edge(arb(1), ratio, first, second, first)
    return Edge(1 / ratio, arb(1), first, second, rest)


class _NoiseClaim(_BlanketClaim):
    """Noise whose W comes from cells along the noised value."""

    _edges: tuple[list[Edge], Ball]

    def summands(self, growth: Ball) -> list[Summand]:
        """Return W."""
        edges, whole = self._edges
        return [celled(edges, whole, growth)]


@dataclass(frozen=True)
class LaplaceClaim(_NoiseClaim, name="laplace"):
    """Laplace noise of scale 1/ε₀ on values in [0, 1], in cells of equal width between the two."""

    reports: int
    local_epsilon: float
    cells: int

    sentence = (
        "{0.reports:,} shuffled reports of Laplace noise, local_epsilon={0.local_epsilon!r}, "
        "discretised upwards into {0.cells} cells"
    )

    def _check(self) -> None:
        if not double(0.0, 700.0, local_epsilon=self.local_epsilon) > 0:
            raise ParameterError("local_epsilon must be greater than 0")
        count(2, MOST_CELLS, cells=self.cells)

    def fitted(self, delta: float, *, coarse: bool = False) -> "LaplaceClaim":
        """Return the claim with the number of cells for one round, or for many."""
        cells = 2 * math.ceil(max(_FEWEST, _PER_EPSILON * self.local_epsilon))
        return replace(self, cells=min(MOST_CELLS, cells // 3 if coarse else cells))

    @cached_property
    def _edges(self) -> tuple[list[Edge], Ball]:  # type: ignore[override]
        """The edges from 1 down to 0; beyond either end W does not change any more."""
        edges_cost(self.cells)
        local = ball(self.local_epsilon)
        whole = (-local / 2).exp()
        half = (self.cells + 1) // 2
        edges = []
        for index in range(half, -half - 1, -1):
            offset = ball(index) / (2 * half)  # from 1/2
            beyond = (-local * (offset + ball(0.5))).exp() / 2
            before = (local * (offset - ball(0.5))).exp() / 2
            edges.append(_edge(index, (2 * local * offset).exp(), beyond, 1 - before, whole - before))
        return edges, whole


@dataclass(frozen=True)
class GaussianClaim(_NoiseClaim, name="gaussian"):
    """Normal noise on values in [0, 1], in cells of equal width out to `reach` deviations from the middle."""

    reports: int
    deviation: float
    cells: int
    reach: float

    ceiling = math.inf
    sentence = (
        "{0.reports:,} shuffled reports of Gaussian noise on [0, 1], deviation={0.deviation!r}, "
        "discretised upwards into {0.cells} cells within {0.reach!r} deviations"
    )

    def _check(self) -> None:
        double(0.01, 1e6, deviation=self.deviation)
        check_cells(self.cells, self.reach, 200.0)

    def fitted(self, delta: float, *, coarse: bool = False) -> "GaussianClaim":
        """Return the claim with the cells for one round, or for many, at this δ."""
        width = _COARSE if coarse else _WIDTH
        cells, reach = normal_cells(0.5 / self.deviation, delta, width)
        return replace(self, cells=cells, reach=reach)

    @cached_property
    def _edges(self) -> tuple[list[Edge], Ball]:  # type: ignore[override]
        """The edges from the largest noised value down."""
        edges_cost(self.cells)
        deviation = ball(self.deviation)
        middle = 1 / (2 * deviation)  # from either end, in deviations
        whole = 2 * normal(-middle)
        half = (self.cells + 1) // 2
        edges = []
        for index in range(half, -half - 1, -1):
            offset = ball(self.reach) * index / half  # in deviations from 1/2
            beyond = normal(-middle - offset)
            second = normal(middle - offset)
            before = normal(offset - middle)
            edges.append(_edge(index, (offset / deviation).exp(), beyond, second, whole - before))
        return edges, whole
