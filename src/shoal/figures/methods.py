"""What each way of adding up rounds costs, as a ratio to the tight bracket."""

from functools import cache, lru_cache

import numpy as np

from shoal.amplification.amplify import amplify
from shoal.curve import PrivacyCurve
from shoal.figures.composed_rounds import composed, through_renyi
from shoal.figures.figure import Array, Axis, Curve, CurveFigure, pointwise
from shoal.figures.gallery import figure
from shoal.figures.palette import APPROXIMATE, GREY, RENYI, STRONG, Ink

__all__ = ["methods"]

_DELTA = 1e-6


@cache
def _curve() -> PrivacyCurve:
    return amplify(reports=1_000_000, local_epsilon=4.0, bound="strong-clones")


@lru_cache(maxsize=64)
def _least(times: float) -> float:
    """Return the lower end of the bracket around the exact ε."""
    return float(_curve().repeated(round(times)).epsilon_bracket(_DELTA).lower)


def _added_up(times: float) -> float:
    return times * float(_curve().epsilon(_DELTA / times)) / _least(times)


def _renyi(times: Array) -> Array:
    return np.asarray(through_renyi(_curve(), times) / pointwise(_least)(times))


def _by(method: str, ink: Ink, label: str) -> Curve:
    return Curve(label, pointwise(lambda times: composed(_curve(), round(times), method) / _least(times)), ink, 2)


@figure("methods", order=13)
def methods() -> CurveFigure:
    """Return the ε of each method, divided by the least that is possible for the pair."""
    return CurveFigure(
        name="methods",
        title="What a way of adding up rounds costs",
        caption=(
            "Total ε divided by the lower end of the bracket around the exact value, for rounds of strong clones with "
            "δ = 1e-6, n = 1,000,000 and ε₀ = 4 in every round. Dotted: closed forms."
        ),
        axis=Axis("number of rounds T", "rounds", 1, 10_000, points=13, whole=True),
        label="ε / exact ε",
        curves=(
            Curve("ε of a round, times T", pointwise(_added_up), Ink(GREY).formula, 2),
            _by("advanced-closed-form", APPROXIMATE.formula, "advanced, closed form"),
            _by("advanced", APPROXIMATE, "advanced, optimal"),
            Curve("Rényi", _renyi, RENYI, 7),
            _by("loss", STRONG, "loss distribution"),
        ),
    )
