"""Figure 4 of the paper, on tails: where shuffling stops to help as δ falls."""

import math

from figures.figure import Axis, Curve, CurveFigure, Mark, pointwise
from figures.gallery import figure
from figures.palette import BLUE, GREEN, VERMILION, Ink
from shoal.amplification.amplify import amplify
from shoal.amplification.lower_bounds import lower_bound

__all__ = ["tail"]

_REPORTS = 10_000
_SETTINGS = ((3.0, BLUE), (4.0, GREEN), (5.0, VERMILION))


def _curves(local_epsilon: float, colour: str) -> tuple[Curve, ...]:
    exact = lower_bound(reports=_REPORTS, local_epsilon=local_epsilon, categories=2)
    clones = amplify(reports=_REPORTS, local_epsilon=local_epsilon, bound="clones")
    strong = amplify(reports=_REPORTS, local_epsilon=local_epsilon, bound="strong-clones")
    setting = f"ε₀ = {local_epsilon:g}"
    return (
        Curve(f"2RR, exact, {setting}", pointwise(lambda log: float(exact.epsilon(math.exp(-log)))), Ink(colour), 20),
        Curve(
            f"Clones, {setting}",
            pointwise(lambda log: float(clones.epsilon(math.exp(-log)))),
            Ink(colour, "dashed"),
            20,
        ),
        Curve(
            f"Strong clones, {setting}",
            pointwise(lambda log: float(strong.epsilon(math.exp(-log)))),
            Ink(colour, "dashdot", 0.8),
            20,
        ),
    )


@figure("tail", order=8)
def tail() -> CurveFigure:
    """Return log(1/δ) against ε, upright as in the paper."""
    return CurveFigure(
        name="tail",
        title="The tail of the privacy loss",
        caption=(
            f"n = {_REPORTS:,} (the paper states neither its n nor its ε₀). Horizontal dotted lines: log(1/δ) = "
            "n·exp(−ε₀)/2, where the clones jump to ε = ε₀: no amplification any more. Binary randomized response "
            "(2RR) itself does so at about twice that height."
        ),
        axis=Axis("log(1/δ)", "log(1/delta)", 5.0, 650.0, points=81),
        label="central ε",
        scale="linear",
        curves=tuple(curve for setting in _SETTINGS for curve in _curves(*setting)),
        marks=tuple(
            Mark(_REPORTS * math.exp(-local) / 2, f"n·exp(−ε₀)/2, ε₀ = {local:g}", colour)
            for local, colour in _SETTINGS
        ),
        upright=True,
    )
