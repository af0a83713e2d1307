"""Noisy SGD over a permutation: what each theorem makes of the noise, and what Poisson accounting would print."""

import math
from collections.abc import Callable
from functools import partial

from shoal.figures.figure import Axis, Curve, CurveFigure, pointwise
from shoal.figures.gallery import figure
from shoal.figures.palette import BEST, CLONES, GREY, ORANGE, STRONG, Ink
from shoal.sgd.bounds import bounds
from shoal.sgd.poisson import poisson_comparison
from shoal.sgd.run import Run
from shoal.sgd.run_limits import lower_bound

__all__ = ["permutation"]

_EXAMPLES, _DELTA = 60_000, 1e-6


def _bound(name: str, multiplier: float) -> float:
    run = Run(examples=_EXAMPLES, noise_multiplier=multiplier)
    result = {bound.name: bound.epsilon for bound in bounds(run, _DELTA)}
    useful = name == "plain" or result[name] < result["plain"]
    return result[name] if useful and math.isfinite(result[name]) else math.nan


def _least(multiplier: float) -> float:
    return lower_bound(Run(examples=_EXAMPLES, noise_multiplier=multiplier), delta=_DELTA)


def _poisson(multiplier: float) -> float:
    return poisson_comparison(Run(examples=_EXAMPLES, noise_multiplier=multiplier), delta=_DELTA).poisson_epsilon


@figure("permutation", order=12)
def permutation() -> CurveFigure:
    """Return ε against the noise multiplier."""

    def curve(label: str, function: Callable[[float], float], ink: Ink) -> Curve:
        return Curve(label, pointwise(function), ink, chunk=2)

    return CurveFigure(
        name="permutation",
        title="Noisy SGD over a permutation of 60,000 examples",
        caption=(
            "One epoch, batches of one, δ = 1e-6, one example replaced. Curves end where a theorem says less than the "
            "plain Gaussian mechanism, which holds for any order. The dotted line is what accounting as if by Poisson "
            "sampling prints: for little noise it is below what is possible."
        ),
        axis=Axis("noise multiplier", "noise multiplier", 0.5, 10.0, points=27),
        label="ε",
        curves=(
            curve("plain Gaussian, any order", partial(_bound, "plain"), Ink(GREY)),
            curve("the paper's theorem, clones", partial(_bound, "clones"), CLONES),
            curve("strong clones", partial(_bound, "strong-clones"), Ink(ORANGE)),
            curve("Theorem G, clones of a Gaussian", partial(_bound, "gaussian-clones"), STRONG),
            curve("no bound can be below", _least, BEST),
            curve("Poisson accounting: not valid", _poisson, Ink("#882255", "dotted", 1.8)),
        ),
    )
