"""Figure 2 of the paper: the central ε of one round, by the bounds of the paper and the ones of shoal."""

from collections.abc import Callable
from typing import NamedTuple

from shoal.amplification.amplify import amplify
from shoal.amplification.blanket_form import BlanketForm
from shoal.amplification.lower_bounds import lower_bound
from shoal.amplification.published import BinaryResponseForm, CheckInForm
from shoal.figures.figure import Axis, Curve, CurveFigure, pointwise
from shoal.figures.gallery import figure
from shoal.figures.palette import BEST, BINARY, BLANKET, CHECK_IN, CLONES, RESPONSE, STRONG, Ink

__all__ = ["central_large", "central_local", "central_small"]

_DELTA = 1e-6
_REPORTS = Axis("number of reports n", "reports", 1e5, 1e7, whole=True)
_KEY = (
    "Dotted: closed forms. Solid: numerical bounds. Dashed black: best possible, no bound for all ε₀-DP randomizers "
    "can be below it. 2RR, exact: the exact ε of binary randomized response, one such randomizer."
)


class _Bound(NamedTuple):
    label: str
    epsilon: Callable[[int, float], float]
    ink: Ink


def _catalogued(name: str) -> Callable[[int, float], float]:
    def epsilon(reports: int, local_epsilon: float) -> float:
        return float(amplify(reports=reports, local_epsilon=local_epsilon, bound=name).epsilon(_DELTA))

    return epsilon


def _reached(categories: int | None) -> Callable[[int, float], float]:
    def epsilon(reports: int, local_epsilon: float) -> float:
        limit = lower_bound(reports=reports, local_epsilon=local_epsilon, categories=categories)
        return float(limit.epsilon(_DELTA))

    return epsilon


_THEORETICAL = _Bound("Clones, theoretical", _catalogued("clones-closed-form"), CLONES.formula)
_SHARP = _Bound("Strong clones, sharp form", _catalogued("strong-clones-sharp-form"), STRONG.formula)
_BOUNDS = (
    _Bound("BKMTT'20 (comparison only)", lambda n, local: CheckInForm(n, local).epsilon(_DELTA), CHECK_IN),
    _Bound("BBGN'19", lambda n, local: BlanketForm(n, local, "bennett").epsilon(_DELTA), BLANKET),
    _THEORETICAL,
    _Bound("CSUZZ'19, 2RR", lambda n, local: BinaryResponseForm(n, local).epsilon(_DELTA), BINARY),
    _Bound("Clones", _catalogued("clones"), CLONES),
    _Bound("Strong clones", _catalogued("strong-clones"), STRONG),
    _Bound("2RR, exact", _reached(2), RESPONSE),
    _Bound("best possible", _reached(None), BEST),
)


def _over_reports(local_epsilon: float) -> tuple[Curve, ...]:
    def curve(bound: _Bound) -> Curve:
        return Curve(bound.label, pointwise(lambda n: bound.epsilon(round(n), local_epsilon)), bound.ink)

    return tuple(map(curve, _BOUNDS))


def _over_local_epsilon(reports: int) -> tuple[Curve, ...]:
    def curve(bound: _Bound) -> Curve:
        return Curve(bound.label, pointwise(lambda local: bound.epsilon(reports, local)), bound.ink)

    index = _BOUNDS.index(_THEORETICAL) + 1
    return tuple(map(curve, (*_BOUNDS[:index], _SHARP, *_BOUNDS[index:])))


@figure("central-small", order=1)
def central_small() -> CurveFigure:
    """Return ε against n for a small ε₀ (the paper's Figure 2a)."""
    return CurveFigure(
        name="central-small",
        title="One round, small ε₀ = 0.1",
        caption=f"Central ε at δ = 1e-6, ε₀ = 0.1. {_KEY}",
        axis=_REPORTS,
        label="central ε",
        curves=_over_reports(0.1),
    )


@figure("central-large", order=2)
def central_large() -> CurveFigure:
    """Return ε against n for a large ε₀ (the paper's Figure 2b)."""
    return CurveFigure(
        name="central-large",
        title="One round, large ε₀ = 6",
        caption=f"Central ε at δ = 1e-6, ε₀ = 6; a bound that says nothing is drawn at ε₀. {_KEY}",
        axis=_REPORTS,
        label="central ε",
        curves=_over_reports(6.0),
    )


@figure("central-local", order=3)
def central_local() -> CurveFigure:
    """Return ε against ε₀ (the paper's Figure 2c)."""
    return CurveFigure(
        name="central-local",
        title="One round, a million reports",
        caption=(
            f"Central ε at δ = 1e-6, n = 1,000,000; a curve ends where the bound is not proven, and is at ε₀ where it "
            f"says nothing. {_KEY}"
        ),
        axis=Axis("local ε₀", "local epsilon", 0.01, 8.0, points=41),
        label="central ε",
        curves=_over_local_epsilon(1_000_000),
    )
