"""What it is worth to know the randomizer: the blanket of named mechanisms, and the bound for all of them."""

from figures.figure import Axis, Curve, CurveFigure, pointwise
from figures.gallery import figure
from figures.palette import BLACK, GREEN, ORANGE, PURPLE, SKY, STRONG, VERMILION, Ink
from shoal.amplification.amplify import amplify
from shoal.mechanisms import (
    Categorical,
    HadamardResponse,
    RandomizedResponse,
    Rappor,
    SubsetSelection,
    UnaryEncoding,
)

__all__ = ["randomizers"]

_DELTA = 1e-6
_REPORTS = 1_000_000
_CATEGORIES = 100


def _curve(label: str, randomizer: type[Categorical], ink: Ink, categories: int = _CATEGORIES) -> Curve:
    def epsilon(local_epsilon: float) -> float:
        described = randomizer(categories=categories, local_epsilon=local_epsilon)
        return float(amplify(described, reports=_REPORTS).epsilon(_DELTA))

    return Curve(label, pointwise(epsilon), ink)


def _any(local_epsilon: float) -> float:
    return float(amplify(local_epsilon=local_epsilon, reports=_REPORTS).epsilon(_DELTA))


@figure("randomizers", order=14)
def randomizers() -> CurveFigure:
    """Return the central ε of named randomizers against ε₀."""
    return CurveFigure(
        name="randomizers",
        title="Named randomizers, a million reports",
        caption=(
            f"Central ε at δ = 1e-6, n = {_REPORTS:,}, by the privacy blanket of each randomizer for {_CATEGORIES} "
            "categories (k-ary randomized response also for 10), and the lesser of strong clones and swap-chains, "
            "which hold for all."
        ),
        axis=Axis("local ε₀", "local epsilon", 0.1, 8.0, points=25),
        label="central ε",
        curves=(
            Curve("any randomizer", pointwise(_any), STRONG),
            _curve("RAPPOR", Rappor, Ink(ORANGE)),
            _curve("randomized response, k = 10", RandomizedResponse, Ink(VERMILION), 10),
            _curve("subset selection", SubsetSelection, Ink(PURPLE)),
            _curve("Hadamard response", HadamardResponse, Ink(SKY, width=2.4)),
            _curve("unary encoding", UnaryEncoding, Ink(BLACK, "dashed")),
            _curve("randomized response, k = 100", RandomizedResponse, Ink(GREEN)),
        ),
    )
