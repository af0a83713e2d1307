"""Figure 3a of the paper: the Rényi divergence of one round against its order."""

import numpy as np

from figures.figure import Array, Axis, Curve, CurveFigure, Mark
from figures.gallery import figure
from figures.palette import CLONES, GIRGIS, RESPONSE, STRONG
from shoal.amplification.amplify import amplify
from shoal.amplification.girgis import GirgisForm, response_renyi

__all__ = ["renyi"]

_REPORTS, _LOCAL_EPSILON = 1_000_000, 5.0


def _girgis(orders: Array) -> Array:
    return GirgisForm(_REPORTS, _LOCAL_EPSILON).renyi(orders)


def _response(orders: Array) -> Array:
    return response_renyi(orders, reports=_REPORTS, local_epsilon=_LOCAL_EPSILON)


def _clones(orders: Array) -> Array:
    return np.asarray(amplify(reports=_REPORTS, local_epsilon=_LOCAL_EPSILON, bound="clones").renyi(orders))


def _strong_clones(orders: Array) -> Array:
    return np.asarray(amplify(reports=_REPORTS, local_epsilon=_LOCAL_EPSILON, bound="strong-clones").renyi(orders))


@figure("renyi", order=4)
def renyi() -> CurveFigure:
    """Return the Rényi divergence against its order."""
    return CurveFigure(
        name="renyi",
        title="One round, in Rényi divergence",
        caption="ε₀ = 5 and n = 1,000,000 (the paper does not state its n). Dotted line: ε₀, which always holds.",
        axis=Axis("order α", "order", 3.0, 1e4, points=18, dense=(500.0, 2500.0)),
        label="Rényi ε(α)",
        curves=(
            Curve("GDDSK'21", _girgis, GIRGIS, chunk=100),
            Curve("Clones", _clones, CLONES, chunk=16),
            Curve("Strong clones", _strong_clones, STRONG, chunk=16),
            Curve("2RR, lower bound", _response, RESPONSE, chunk=100),
        ),
        marks=(Mark(_LOCAL_EPSILON, "local ε₀ = 5"),),
    )
