"""Figure 2 of the paper: the central ε of one round, by the bounds of the paper and the ones of shoal."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from figures.figure import Array, Axis, Curve, CurveFigure, PaintedFigure, Piece, pointwise
from figures.gallery import figure
from figures.palette import BEST, BINARY, BLACK, BLANKET, CHECK_IN, CLONES, RESPONSE, STRONG, Ink
from shoal.amplification.amplify import amplify
from shoal.amplification.blanket_form import BlanketForm
from shoal.amplification.lower_bounds import lower_bound
from shoal.amplification.published import BinaryResponseForm, CheckInForm, FirstForm
from shoal.mechanisms import RandomizedResponse

__all__ = ["GrowthFigure", "central_large", "central_local", "central_small", "table_one"]

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


def _catalogued(name: str, delta: float = _DELTA, local_delta: float = 0.0) -> Callable[[int, float], float]:
    def epsilon(reports: int, local_epsilon: float) -> float:
        curve = amplify(reports=reports, local_epsilon=local_epsilon, local_delta=local_delta, bound=name)
        return float(curve.epsilon(delta))

    return epsilon


def _reached(categories: int | None, delta: float = _DELTA) -> Callable[[int, float], float]:
    def epsilon(reports: int, local_epsilon: float) -> float:
        limit = lower_bound(reports=reports, local_epsilon=local_epsilon, categories=categories)
        return float(limit.epsilon(delta))

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


_MANY_REPORTS, _LOCAL_EPSILON = 10**15, 5.5
_TINY_DELTA = 1e-30
"""So small that √ln(1/δ) hides the factors that grow more slowly."""
_LOCAL_DELTA = 1e-60
_CATEGORIES = 100_000


class _Claim(NamedTuple):
    """The exponent of e^ε₀ that the paper claims, and the whole expression as text and in TeX."""

    exponent: float
    text: str
    formula: str


class _Row(NamedTuple):
    label: str
    epsilon: Callable[[int, float], float]
    claim: _Claim
    ink: Ink


@dataclass(frozen=True, kw_only=True)
class GrowthFigure(PaintedFigure):
    """The exponents in n and e^ε₀, a row for each bound, with what the paper claims."""

    bounds: tuple[_Row, ...]

    @property
    def header(self) -> list[str]:
        """The bound, its exponents, and the claim."""
        return ["bound", "exponent in n", "exponent in eps0", "the paper's claim"]

    def pieces(self, points: int | None = None) -> list[Piece]:
        """Return one piece a bound; there are no points to choose."""
        return [Piece(part, np.empty(0)) for part in range(len(self.bounds))]

    def solve(self, piece: Piece) -> Array:
        """Return both slopes of ln ε, NaN where the bound is out of range."""
        epsilon = self.bounds[piece.part].epsilon
        current, fewer = pointwise(lambda n: epsilon(round(n), _LOCAL_EPSILON))(
            np.array([_MANY_REPORTS, _MANY_REPORTS / 4])
        )
        (less,) = pointwise(lambda local: epsilon(_MANY_REPORTS, local))(np.array([_LOCAL_EPSILON - 0.5]))
        return np.array([math.log(current / fewer) / math.log(4), math.log(current / less) / 0.5])

    def rows(self, pieces: Sequence[Piece], answers: Sequence[Array]) -> list[list[Any]]:
        """Return a row a bound."""
        return [
            [bound.label, *answer.tolist(), bound.claim.text]
            for bound, answer in zip(self.bounds, answers, strict=True)
        ]

    def paint(self, canvas: Any, rows: Sequence[Sequence[Any]]) -> None:
        """Draw bars for what was measured, and diamonds for what is claimed."""
        left, right = canvas.subplots(1, 2, sharey=True, width_ratios=(3, 1))
        heights = range(len(rows))[::-1]
        claims = [bound.claim.exponent for bound in self.bounds]
        falls = [math.nan if math.isnan(claim) else -0.5 for claim in claims]
        for axes, column, claimed in ((left, 2, claims), (right, 1, falls)):
            measured = [row[column] for row in rows]
            axes.barh(heights, measured, height=0.62, color=[bound.ink.colour for bound in self.bounds], alpha=0.75)
            axes.plot(claimed, heights, "D", color=BLACK, markersize=4.5, label="claimed in Table 1")
            for height, value in zip(heights, measured, strict=True):
                text = "not measured" if math.isnan(value) else f"{value:.2f}".replace("-", "−")
                axes.annotate(text, (0.99, height), xycoords=("axes fraction", "data"), ha="right", va="center")
            axes.grid(axis="x", alpha=0.25, linewidth=0.6)
            axes.spines[["top", "right"]].set_visible(False)
            axes.tick_params(axis="y", length=0)
        left.set(xlabel="exponent of exp(ε₀) in ε", xlim=(0, 4.2), xticks=(0, 0.5, 1, 1.5, 2, 2.5, 3), yticks=heights)
        left.set_yticklabels([f"{bound.label}   {bound.claim.formula}" for bound in self.bounds])
        right.set(xlabel="exponent of n in ε", xlim=(-0.58, 0.5), xticks=(-0.5, 0))
        left.legend(loc="center right", bbox_to_anchor=(0.86, 0.6), frameon=False)


def _response(name: str) -> Callable[[int, float], float]:
    def epsilon(reports: int, local_epsilon: float) -> float:
        randomizer = RandomizedResponse(categories=_CATEGORIES, local_epsilon=local_epsilon)
        return float(amplify(randomizer, reports=reports, bound=name).epsilon(_TINY_DELTA))

    return epsilon


_CUBE = _Claim(3.0, "e^(3ε₀)/√n", r"$e^{3ε_0}/\sqrt{n}$")
_ALMOST_CUBE = _Claim(2.5, "e^(2.5ε₀)/√n", r"$e^{2.5ε_0}/\sqrt{n}$")
_ONE = _Claim(1.0, "e^ε₀/√n", r"$e^{ε_0}/\sqrt{n}$")
_HALF = _Claim(0.5, "e^(ε₀/2)/√n", r"$e^{ε_0/2}/\sqrt{n}$")
_MANY = _Claim(1.0, "e^ε₀/√(n(e^ε₀ + k))", r"$e^{ε_0}/\sqrt{n(e^{ε_0} + k)}$")
_NONE = _Claim(math.nan, "", "")
_ROWS = (
    _Row("EFMRTT'19", lambda n, local: FirstForm(n, local).epsilon(_TINY_DELTA), _CUBE, CHECK_IN),
    _Row("BKMTT'20", lambda n, local: CheckInForm(n, local).epsilon(_TINY_DELTA), _ALMOST_CUBE, CHECK_IN),
    _Row("BBGN'19", lambda n, local: BlanketForm(n, local, "bennett").epsilon(_TINY_DELTA), _ONE, BLANKET),
    _Row("CSUZZ'19, 2RR", lambda n, local: BinaryResponseForm(n, local).epsilon(_TINY_DELTA), _HALF, BINARY),
    _Row("Clones, theoretical", _catalogued("clones-closed-form", _TINY_DELTA), _HALF, CLONES),
    _Row("Clones", _catalogued("clones", _TINY_DELTA), _HALF, CLONES),
    _Row("Clones, (ε₀, δ₀)-DP", _catalogued("clones", _TINY_DELTA, _LOCAL_DELTA), _HALF, CLONES),
    _Row("Clones, kRR, theoretical", _response("decomposition-closed-form"), _MANY, CLONES),
    _Row("Clones, kRR", _response("decomposition"), _MANY, CLONES),
    _Row("Strong clones", _catalogued("strong-clones", _TINY_DELTA), _NONE, STRONG),
    _Row("2RR, lower bound", _reached(2, _TINY_DELTA), _NONE, RESPONSE),
    _Row("best possible", _reached(None, _TINY_DELTA), _NONE, BEST),
)


@figure("table-one", order=9)
def table_one() -> GrowthFigure:
    """Return the exponents of Table 1, measured."""
    return GrowthFigure(
        name="table-one",
        title="How each bound grows with ε₀ and falls with n",
        caption=(
            "Slopes of ln ε between ε₀ = 5 and 5.5 at n = 1e15, and between n = 2.5e14 and 1e15 at ε₀ = 5.5; "
            "δ = 1e-30, δ₀ = 1e-60, and k = 100,000, far above exp(ε₀). EFMRTT'19 is known for ε₀ < 1/2 only; the "
            "last three rows are not in Table 1."
        ),
        bounds=_ROWS,
    )
