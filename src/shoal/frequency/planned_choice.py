"""One mechanism of a plan: its guarantee, its errors, what people send, and what remains under collusion."""

import math
import time
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from shoal.charts.shown import Shown
from shoal.charts.svg_chart import Chart
from shoal.curve import PrivacyCurve
from shoal.randomizers import Categorical

__all__ = ["Choice"]


@dataclass(frozen=True)
class Choice(Shown):
    """One mechanism of a plan, with the largest ε₀ that its own bound allows.

    Attributes
    ----------
    mechanism : Categorical
        Ready to run.
    curve : PrivacyCurve
        The central guarantee of one round.
    epsilon, delta : float
        What all rounds reach together, with those of a ledger; at most what was asked for.
    error : float
        The expected ℓ₂ error of all frequencies together in one round, where all are equal: the root of the mean
        square.
    category_error : float
        The standard error of the frequency of a rare category in one round.
    times : int
        How many rounds there are.
    """

    mechanism: Categorical
    curve: PrivacyCurve
    epsilon: float
    delta: float
    error: float
    category_error: float
    times: int = 1

    @property
    def average_error(self) -> float:
        """The ℓ₂ error of the average over all rounds, whose noise is independent."""
        return self.error / math.sqrt(self.times)

    @property
    def average_category_error(self) -> float:
        """The standard error of the frequency of a rare category, averaged over all rounds."""
        return self.category_error / math.sqrt(self.times)

    @cached_property
    def frequent_error(self) -> float:
        """The standard error of the most frequent category in one round, if the i-th is 1/i as frequent as it."""
        shares = 1 / np.arange(1, self.mechanism.categories + 1)
        return math.sqrt(float(self.mechanism.variance(shares / shares.sum(), reports=self.curve.reports)[0]))

    @property
    def messages(self) -> float:
        """How many messages there are for each person, covers and dummies included, empty ones apart."""
        return self.mechanism.messages_per_person + self.mechanism.added / self.curve.reports

    @property
    def sealed_bytes(self) -> int:
        """How many bytes a person sends when all messages are sealed."""
        return self.mechanism.bundle * self.mechanism.ciphertext_bytes

    @property
    def needs(self) -> str | None:
        """What covers need of people, or dummies of the shuffler; nothing of others, whose reports hide themselves."""
        return None if self.mechanism.private_alone else self.curve.assumptions[0].text

    @cached_property
    def round_epsilon(self) -> float:
        """The ε of one round by itself, at the same δ."""
        return float(self.curve.epsilon(self.delta)) if self.times > 1 else self.epsilon

    @cached_property
    def decoding_seconds(self) -> float:
        """How long it takes to decode a count state, error bars apart, measured now: no part of the plan."""
        counts = self.mechanism.aggregate(self.mechanism.randomize([0]))
        start = time.perf_counter()
        self.mechanism.supported(counts.values, counts.reports)
        return time.perf_counter() - start

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values."""
        return {
            "mechanism": self.mechanism.name,
            "schema": self.mechanism.to_dict(),
            "local_epsilon": self.mechanism.local_epsilon if self.mechanism.local_epsilon < math.inf else None,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "bound": self.curve.bound,
            "error": self.error,
            "category_error": self.category_error,
            "frequent_error": self.frequent_error,
            "average_error": self.average_error,
            "average_category_error": self.average_category_error,
            "bits_per_report": self.mechanism.bits_per_report,
            "messages": self.messages,
            "sealed_bytes": self.sealed_bytes,
            "influence": self.mechanism.influence,
            "remains": self.mechanism.remains,
            "needs": self.needs,
        }

    def _columns(self) -> dict[str, list[Any]]:
        return {name: [value] for name, value in self.to_dict().items() if name != "schema"}

    def _cells(self) -> dict[str, list[str]]:
        return {
            name: [f"{cell:.6g}" if isinstance(cell, float) else str(cell)] for name, (cell,) in self._columns().items()
        }

    def chart(self) -> Chart:
        """Return ε against δ of one round."""
        return self.curve.chart(delta=self.delta)
