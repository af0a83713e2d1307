"""A claim about a mechanism that prefers the outputs which support the truth: its blanket, in closed form.

Each output supports some inputs, which report it e^ε₀ times as often. How often a uniform output supports neither, one
or both of the two inputs that are the easiest to tell apart, and how often it supports all inputs, is all that matters
(docs/theory/frequency.md, statements 1 and 2). `DESIGNS` has these four numbers of every mechanism by name; a new one
registers its own, or is the claim of a design in numbers.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from shoal.assumptions import DESCRIBED, FIXED
from shoal.errors import ParameterError
from shoal.proofs.balls import Ball, Summand, ball, zero
from shoal.proofs.claim import RoundClaim, count, double
from shoal.statements import BLANKET

__all__ = ["DESIGNS", "Shares", "SupportClaim", "support_claim"]

Shares = tuple[Any, Any, Any, Any]
"""How often an output supports neither of two inputs, the first alone, both but not all, all: fractions or balls."""

_MOST = 10**18  # the largest parameter of a design


def _blocked(outputs: int, supporting: int, common: int, blocks: int, everybody: int = 0) -> Shares:
    if not 0 <= common <= supporting <= outputs - supporting + common or blocks < 1:
        raise ParameterError(f"{outputs}, {supporting}, {common} and {blocks} are no design")
    common = common if blocks == 1 else 0
    every = outputs
    return (
        Fraction(every - 2 * supporting + common, every),
        Fraction(supporting - common, every),
        Fraction(common - everybody, every),
        Fraction(everybody, every),
    )


def _power(number: int) -> int:
    """Return the smallest power of two that is at least this number."""
    return 1 << max(number - 1, 0).bit_length()


def _hadamard(categories: int, blocks: int) -> Shares:
    _power_of_two(blocks)
    order = 1 << (-(-categories // blocks)).bit_length()
    return _blocked(blocks * order, order // 2, order // 4, blocks, int(blocks == 1))


def _recursive(categories: int, blocks: int) -> Shares:
    _power_of_two(blocks)
    rows = _power(-(-categories // blocks))
    return _blocked(2 * rows * blocks, rows, rows // 2, blocks, int(blocks == 1))


def _power_of_two(blocks: int) -> None:
    if blocks & (blocks - 1):
        raise ParameterError(f"blocks must be a power of two, got {blocks}")


def _independent(order: int, window: int) -> Shares:
    share = Fraction(window, order)
    if not share < 1:
        raise ParameterError(f"window must be less than order={order}, got {window}")
    return (1 - share) ** 2, share * (1 - share), share * share, Fraction(0)


def _points(order: int, dimension: int) -> int:
    return int((order**dimension - 1) // (order - 1))


def _projective(categories: int, order: int, dimension: int, blocks: int) -> Shares:
    if order < 2 or not 2 <= dimension <= 64 or order**dimension > 10**40:
        raise ParameterError(f"order={order} and dimension={dimension} are no projective space that is used")
    every, support, common = (_points(order, dimension - less) for less in (0, 1, 2))
    if blocks * every < categories:
        raise ParameterError(f"{blocks} spaces of {every} points are too few for {categories} categories")
    return _blocked(blocks * every, support, common, blocks)


def _subsets(categories: int, size: int) -> Shares:
    if not size < categories:
        raise ParameterError(f"a subset has fewer than categories={categories}, got {size}")
    return _blocked(categories * (categories - 1), size * (categories - 1), size * (size - 1), 1)


def _bits(local_epsilon: float, categories: int) -> Shares:
    """Independent bits, each set with odds e^−ε : 1 unless it is the true one."""
    small = (-ball(local_epsilon)).exp()
    clear = 1 / (1 + small)
    set_ = small * clear
    every = set_**categories
    return clear * clear, set_ * clear, set_ * set_ - every, every


DESIGNS: dict[str, tuple[tuple[str, ...], Callable[..., Shares]]] = {
    "randomized-response": (("categories",), lambda _, categories: _blocked(categories, 1, 0, 1)),
    "one-bit-mean": ((), lambda _: _blocked(2, 1, 0, 1)),
    "hadamard-response": (("categories", "blocks"), lambda _, categories, blocks: _hadamard(categories, blocks)),
    "recursive-hadamard-response": (
        ("categories", "blocks"),
        lambda _, categories, blocks: _recursive(categories, blocks),
    ),
    "subset-selection": (("categories", "subset_size"), lambda _, categories, size: _subsets(categories, size)),
    "projective-geometry-response": (
        ("categories", "order", "dimension", "blocks"),
        lambda _, *numbers: _projective(*numbers),
    ),
    "private-independent-rappor": (
        ("categories", "order", "window"),
        lambda _, categories, order, window: _independent(order, window),
    ),
    "local-hashing": (("categories", "buckets"), lambda _, categories, buckets: _independent(buckets, 1)),
    "unary-encoding": (("categories",), _bits),
    "rappor": (("categories",), lambda local_epsilon, categories: _bits(local_epsilon / 2, categories)),
    "design": (("outputs", "supporting", "common", "blocks"), lambda _, *numbers: _blocked(*numbers)),
}
"""By the name of a mechanism: its parameters, and the shares of its outputs as a function of ε₀ and of them."""


@dataclass(frozen=True)
class SupportClaim(RoundClaim, name="support"):
    """The blanket of a mechanism by its name, or of a design by its numbers."""

    reports: int
    local_epsilon: float
    mechanism: str
    parameters: Mapping[str, int]

    theorem = BLANKET
    assumptions = (DESCRIBED, *FIXED)

    def __post_init__(self) -> None:
        """Check the fields."""
        count(reports=self.reports)
        double(0.0, 700.0, local_epsilon=self.local_epsilon)
        if not isinstance(self.mechanism, str) or self.mechanism not in DESIGNS:
            raise ParameterError(f"no mechanism {self.mechanism!r:.40} is known here, only {', '.join(DESIGNS)}")
        names = DESIGNS[self.mechanism][0]
        if not isinstance(self.parameters, Mapping) or set(self.parameters) != set(names):
            raise ParameterError(f"{self.mechanism} has the parameters {', '.join(names) or 'of none'}")
        for name in names:
            least = 2 if name in ("categories", "order", "buckets", "outputs") else 0 if name == "common" else 1
            count(least, _MOST, **{name: self.parameters[name]})
        object.__setattr__(self, "parameters", {name: self.parameters[name] for name in names})
        self.shares()

    def __hash__(self) -> int:
        """Return a number that is the same for equal claims."""
        return hash((self.reports, self.local_epsilon, self.mechanism, *self.parameters.values()))

    def shares(self) -> Shares:
        """Return how often an output supports neither, one, both, all."""
        return DESIGNS[self.mechanism][1](self.local_epsilon, *self.parameters.values())

    @property
    def subject(self) -> str:
        """The mechanism with its numbers."""
        numbers = "".join(f", {name}={value}" for name, value in self.parameters.items())
        return (
            f"{self.reports:,} shuffled reports of {self.mechanism} with local_epsilon={self.local_epsilon!r}{numbers}"
        )

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
        return [Summand(tuple(values), tuple(probabilities), zero())]


def support_claim(mechanism: Any, reports: int) -> SupportClaim:
    """Return the claim of a mechanism with a design: by its name if that has the same shares, else by its numbers."""
    design = mechanism.design
    numbers = {name: getattr(design, name) for name in ("outputs", "supporting", "common", "blocks")}
    plain = SupportClaim(reports, mechanism.local_epsilon, "design", numbers)
    names = DESIGNS.get(mechanism.name, (None,))[0]
    if names is None or not all(hasattr(mechanism, name) for name in names):
        return plain
    parameters = {name: getattr(mechanism, name) for name in names}
    named = SupportClaim(reports, mechanism.local_epsilon, mechanism.name, parameters)
    both = plain.shares()[2] - named.shares()[3]
    return named if named.shares()[:3] == (*plain.shares()[:2], both) else plain
