"""A certificate for people: its numbers as a table, and what it proves of any attacker as a picture."""

import math
from typing import Any

from shoal.charts.scale import Axis, number_text
from shoal.charts.shown import Shown
from shoal.charts.svg_chart import Chart
from shoal.digits import rounded_up
from shoal.documentation import linked

__all__ = ["CertificatePicture"]

_POINTS = 100


class CertificatePicture(Shown):
    """How a certificate shows itself; the proof needs none of it."""

    def __init__(self, certificate: Any) -> None:
        self._certificate = certificate

    def _columns(self) -> dict[str, list[Any]]:
        names = ("epsilon", "delta", "printed_epsilon", "proven_delta", "bits")
        facts = {name: [getattr(self._certificate, name)] for name in names}
        return facts | {"theorem": [linked(self._certificate.claim.theorem)]}

    def _cells(self) -> dict[str, list[str]]:
        certificate = self._certificate
        facts = {
            "ε": repr(certificate.epsilon),
            "δ": repr(certificate.delta),
            "theorem": linked(certificate.claim.theorem),
        }
        return {name: [text] for name, text in facts.items()}

    def _caption(self) -> str:
        return str(self._certificate)

    def _most_hits(self, alarms: float) -> float:
        """Return how often an attacker can be right at most, who raises this share of false alarms."""
        growth = math.exp(min(self._certificate.epsilon, 700.0))
        delta: float = self._certificate.delta
        return min(1.0, growth * alarms + delta, 1 - (1 - alarms - delta) / growth)

    def chart(self) -> Chart:
        """Return what is proved of any attacker: the share of right alarms at most, against that of false ones."""
        alarms = [(index / _POINTS) ** 2 for index in range(_POINTS + 1)]
        hits = [self._most_hits(share) for share in alarms]
        one = _POINTS // 10
        said = f"at 1 % false alarms at most {rounded_up(min(100 * hits[one] * (1 + 1e-12), 100.0), 4)} % right ones"
        chart = Chart(
            Axis("false alarms", low=0, high=1),
            Axis("right alarms", low=0, high=1),
            "What is proved of anybody who guesses which of two neighbouring datasets it is",
            f"The right alarms of an attacker, at most, against the false ones; {said}.",
            note=f"ε = {rounded_up(self._certificate.epsilon)}, δ = {number_text(self._certificate.delta)}",
            width=520.0,
            height=420.0,
        )
        chart.band(alarms, alarms, hits, kind="guarantee")
        chart.line(alarms, alarms, "a coin", "local")
        chart.line(alarms, hits, "at most", "guarantee")
        chart.mark(alarms[one], hits[one], said)
        return chart
