"""Figures 3b to 3d of the paper: the ε of many rounds, by all ways of adding them up."""

import math
from collections.abc import Callable
from functools import cache, lru_cache
from typing import NamedTuple

import numpy as np

from figures.figure import Array, Axis, Curve, CurveFigure, pointwise
from figures.gallery import figure
from figures.palette import APPROXIMATE, CLONES, GIRGIS, GREY, RENYI, STRONG, Ink
from shoal.amplification.amplify import amplify
from shoal.amplification.girgis import GirgisForm
from shoal.composition.renyi_accountant import converted
from shoal.curve import PrivacyCurve

__all__ = ["composed", "methods", "rounds_large", "rounds_local", "rounds_small", "through_renyi"]

_DELTA = 1e-6
_MANY = 10_000
_WHOLE_ORDERS = np.unique(np.round(np.geomspace(2, 20_000, 200)))
_RATIO = 1.2
"""Between neighbouring values of α − 1: missing the best one costs 0.4% of ε at most."""
_KEY = "Dotted: closed form. Dashed: through Rényi divergences, close to the curve below. Thick: added by shoal."


def composed(curve: PrivacyCurve, times: int, method: str) -> float:
    """Return the ε of this many rounds."""
    return float(curve.repeated(times, method=method).epsilon(_DELTA))


def through_renyi(curve: PrivacyCurve, times: Array) -> Array:
    """Return the ε of each number of rounds by Rényi divergences, which are computed once for all of them.

    The same theorem as ``method="renyi"``, at orders of a ladder around those that are best for Gaussian losses.
    """
    square = float(curve.renyi(2.0))
    centres = np.sqrt(-2 * math.log(_DELTA) / (times * square))
    steps = math.ceil(math.log(centres.max() / centres.min() * 9) / math.log(_RATIO))
    orders = 1 + centres.min() / 3 * _RATIO ** np.arange(steps + 1)
    return _converted(orders, np.asarray(curve.renyi(orders)), times, curve.local_epsilon)


def _girgis(reports: int, local_epsilon: float, times: Array) -> Array:
    divergences = GirgisForm(reports, local_epsilon).renyi(_WHOLE_ORDERS)
    return _converted(_WHOLE_ORDERS, divergences, times, local_epsilon)


def _converted(orders: Array, divergences: Array, times: Array, local_epsilon: float) -> Array:
    """Return the least ε over the orders, or ε₀ of all rounds together."""
    pairs = list(zip(orders.tolist(), divergences.tolist(), strict=True))
    return np.array(
        [
            min(count * local_epsilon, *(converted(count * divergence, order, _DELTA) for order, divergence in pairs))
            for count in times.tolist()
        ]
    )


class _Way(NamedTuple):
    """A way to get ε from n, ε₀ and numbers of rounds."""

    label: str
    epsilons: Callable[[int, float, Array], Array]
    ink: Ink
    chunk: int = 2


def _by_method(bound: str, method: str) -> Callable[[int, float, Array], Array]:
    def epsilons(reports: int, local_epsilon: float, times: Array) -> Array:
        curve = amplify(reports=reports, local_epsilon=local_epsilon, bound=bound)
        return pointwise(lambda count: composed(curve, round(count), method))(times)

    return epsilons


def _clones_through_renyi(reports: int, local_epsilon: float, times: Array) -> Array:
    return through_renyi(amplify(reports=reports, local_epsilon=local_epsilon, bound="clones"), times)


_WAYS = (
    _Way("GDDSK'21", _girgis, GIRGIS, 100),
    _Way("Clones, via approximate DP", _by_method("clones", "advanced-closed-form"), APPROXIMATE.formula, 8),
    _Way("Clones, via approximate DP, optimal", _by_method("clones", "advanced"), APPROXIMATE),
    _Way("Clones, loss distribution", _by_method("clones", "pld"), CLONES._replace(width=2.2)),
    _Way("Clones, via RDP", _clones_through_renyi, RENYI._replace(style="dashed"), 9),
    _Way("Strong clones, loss distribution", _by_method("strong-clones", "pld"), STRONG),
)


def _over_rounds(reports: int, local_epsilon: float) -> tuple[Curve, ...]:
    def curve(way: _Way) -> Curve:
        return Curve(way.label, lambda times: way.epsilons(reports, local_epsilon, times), way.ink, way.chunk)

    return tuple(map(curve, _WAYS))


def _over_local_epsilon(reports: int, times: int) -> tuple[Curve, ...]:
    count = np.array([float(times)])

    def curve(way: _Way) -> Curve:
        return Curve(way.label, pointwise(lambda local: float(way.epsilons(reports, local, count)[0])), way.ink, 2)

    return tuple(map(curve, _WAYS))


def _rounds(name: str, figure: str, reports: int, local_epsilon: float) -> CurveFigure:
    return CurveFigure(
        name=name,
        title=f"Many rounds of {reports:,} reports with ε₀ = {local_epsilon:g}",
        caption=(
            f"Total ε at δ = 1e-6, n = {reports:,} and ε₀ = {local_epsilon:g} in every round "
            f"(the paper's {figure} does not state its n and ε₀). {_KEY}"
        ),
        axis=Axis("number of rounds T", "rounds", 1, _MANY, points=17, whole=True),
        label="total ε",
        curves=_over_rounds(reports, local_epsilon),
    )


@figure("rounds-small", order=5)
def rounds_small() -> CurveFigure:
    """Return ε against the number of rounds, ε₀ = 2 (instead of the paper's Figure 3b)."""
    return _rounds("rounds-small", "Figure 3b", 1_000_000, 2.0)


@figure("rounds-large", order=6)
def rounds_large() -> CurveFigure:
    """Return ε against the number of rounds, ε₀ = 4 (instead of the paper's Figure 3c)."""
    return _rounds("rounds-large", "Figure 3c", 100_000, 4.0)


@figure("rounds-local", order=7)
def rounds_local() -> CurveFigure:
    """Return ε of 10,000 rounds against ε₀ (the paper's Figure 3d)."""
    return CurveFigure(
        name="rounds-local",
        title=f"{_MANY:,} rounds of 1,000,000 reports",
        caption=(
            f"Total ε of T = {_MANY:,} rounds at δ = 1e-6, n = 1,000,000 in every round "
            f"(the paper does not state its n). {_KEY}"
        ),
        axis=Axis("local ε₀", "local epsilon", 0.1, 8.0, points=17),
        label="total ε",
        curves=_over_local_epsilon(1_000_000, _MANY),
    )


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
            _by("pld", STRONG, "loss distribution"),
        ),
    )
