"""Several bounds of the same reports at one δ, side by side: a tuple of curves that is also a table and a picture."""

import math
from collections.abc import Iterable
from typing import Any

from shoal.charts.scale import Axis, number_text
from shoal.charts.shown import Shown
from shoal.charts.svg_chart import Chart
from shoal.curve import Comparison, PrivacyCurve
from shoal.digits import rounded_down, rounded_up

__all__ = ["BoundTable"]


class BoundTable(tuple[PrivacyCurve | Comparison, ...], Shown):
    """The answer of `compare`: curves, the tightest first.

    Attributes
    ----------
    delta : float
        δ at which they are compared.

    Examples
    --------
    >>> import shoal
    >>> table = shoal.compare(local_epsilon=1, reports=10_000, delta=1e-6)
    >>> table
    BoundTable(12 bounds at δ=1e-06, swap-chains first: ε=0.0409509)
    >>> table[1].bound, len(table)
    ('strong-clones', 12)
    """

    delta: float

    def __new__(cls, curves: Iterable[PrivacyCurve | Comparison], *, delta: float) -> "BoundTable":
        """Return a table of these curves at this δ."""
        table = super().__new__(cls, curves)
        table.delta = delta
        return table

    def __getnewargs_ex__(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return what a copy is made from."""
        return (tuple(self),), {"delta": self.delta}

    def _columns(self) -> dict[str, list[Any]]:
        """Return the name of each bound, its ε, whether it is proven, and its theorem."""
        return {
            "bound": [curve.bound for curve in self],
            "epsilon": [float(curve.epsilon(self.delta)) for curve in self],
            "proven": [curve.proven for curve in self],
            "theorem": [curve.theorem for curve in self],
        }

    def _cells(self) -> dict[str, list[str]]:
        proven = ["yes" if curve.proven else "no guarantee" for curve in self]
        return {
            "bound": [curve.bound for curve in self],
            f"ε at δ = {number_text(self.delta)}": [_number(curve, self.delta, 6) for curve in self],
            "proven": proven,
            "theorem": [curve.theorem for curve in self],
        }

    def _caption(self) -> str:
        return f"{len(self)} bounds, {self[0]._title}" if self else "no bounds"

    def chart(self) -> Chart:
        """Return a bar for each bound, what no bound can beat, and ε₀."""
        epsilons = [float(curve.epsilon(self.delta)) for curve in self]
        at = f"δ = {number_text(self.delta)}"
        texts = [_number(curve, self.delta, 4) + ("" if curve.proven else "  no guarantee") for curve in self]
        chart = Chart(
            Axis(f"central ε at {at}", "log" if any(epsilon > 0 for epsilon in epsilons) else "linear"),
            Axis("", names=tuple(curve.bound for curve in self)),
            f"Every bound that applies: {self[0]._title}" if self else "No bounds",
            f"ε at {at} by each bound, the smallest first: "
            + ", ".join(f"{curve.bound} {text}" for curve, text in zip(self, texts, strict=True)),
        )
        chart.bars(epsilons, texts=texts, kind=["guarantee" if curve.proven else "comparison" for curve in self])
        least = next((curve.lower for curve in self if isinstance(curve, PrivacyCurve) and curve.lower), None)
        if least is not None and (limit := float(least.epsilon(self.delta))) > 0:
            chart.level(limit, f"no bound is below {rounded_down(limit, 4)}", "limit")
        local = self[0].local_epsilon if self else math.inf
        if math.isfinite(local) and local > 0:
            chart.level(local, f"one report alone: ε₀ = {local:g}")
        return chart

    def __repr__(self) -> str:
        """Show how many there are, and the first of them."""
        first = f", {self[0].bound} first: ε={_number(self[0], self.delta, 6)}" if self else ""
        return f"BoundTable({len(self)} bounds at δ={self.delta:g}{first})"


def _number(curve: PrivacyCurve | Comparison, delta: float, digits: int) -> str:
    epsilon = float(curve.epsilon(delta))
    return rounded_up(epsilon, digits) if curve.proven else f"{epsilon:.{digits}g}"
