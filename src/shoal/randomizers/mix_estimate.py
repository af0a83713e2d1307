"""What split and mix tells: the sum and the mean of numbers, with intervals, and a warning."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from shoal.charts.scale import Axis
from shoal.charts.shown import Shown
from shoal.charts.svg_chart import Chart
from shoal.randomizers.interval import two_sided
from shoal.randomizers.level_estimate import Measured

if TYPE_CHECKING:
    from shoal.randomizers.split_and_mix import SplitAndMix

__all__ = ["MixEstimate"]


@dataclass(frozen=True, repr=False)
class MixEstimate(Shown):
    """The sum and the mean of these people's values, if no client is malicious.

    Attributes
    ----------
    mechanism : SplitAndMix
        What each person ran.
    steps : int
        The sum, in steps from the lower end.
    reports, confidence : int, float
        n, and that of the intervals.
    """

    mechanism: "SplitAndMix"
    steps: int
    reports: int
    confidence: float

    @cached_property
    def sum(self) -> Measured:
        """The sum, unbiased. Its quantile has the tails of n/H geometric differences, from above, as for levels."""
        made, n = self.mechanism, self.reports
        step = (made.upper - made.lower) / made.steps
        value = n * made.lower + self.steps * step
        variance = made.variance(reports=n)
        noise = variance - n / 4 * step**2
        error, normal = math.sqrt(variance), two_sided(self.confidence)
        # A difference of two negative binomial numbers of shape s has the excess 3/s, and 1/variance in steps.
        excess = (3 * made.honest / n + step**2 / noise) * (noise / variance) ** 2
        reach = (normal + max(0.0, excess * (normal**3 - 3 * normal) / 24)) * error + step / 2
        return Measured(value, value - reach, value + reach, error)

    @property
    def mean(self) -> Measured:
        """The mean of the values: the sum, over n."""
        value, lower, upper, error = self.sum
        return Measured(value / self.reports, lower / self.reports, upper / self.reports, (error or 0) / self.reports)

    def _columns(self) -> dict[str, list[Any]]:
        rows = [self.sum, self.mean]
        columns = {name: [getattr(row, name) for row in rows] for name in Measured._fields}
        return {"quantity": ["sum", "mean"], **columns}

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values, with the warning."""
        return {
            "mechanism": self.mechanism.to_dict(),
            "reports": self.reports,
            "confidence": self.confidence,
            "sum": self.sum._asdict(),
            "mean": self.mean._asdict(),
            "warning": self.mechanism.warning,
        }

    def chart(self) -> Chart:
        """Return the mean with its interval, on the interval of the values."""
        made, mean = self.mechanism, self.mean
        text = f"{mean.value:.6g} ± {mean.standard_error:.2g}"
        interval = f"{100 * self.confidence:g} % interval"
        chart = Chart(
            Axis(f"mean, with its {interval}", "linear", min(made.lower, mean.lower), max(made.upper, mean.upper)),
            Axis("", names=("mean",)),
            f"{self.reports:,} reports, split and mix",
            f"The mean is {text}; its {interval} is {mean.lower:.6g} to {mean.upper:.6g}. {made.warning}",
            note="one malicious client can move it anywhere",
            width=520.0,
            height=170.0,
        )
        chart.bars([math.nan], lower=[mean.lower], upper=[mean.upper], texts=[text])
        chart.dots([mean.value], "", "guarantee")
        return chart

    def __repr__(self) -> str:
        """Show the sum and the mean, and the warning."""
        return (
            f"MixEstimate(sum {self.sum.value:.6g} ± {self.sum.standard_error:.2g}, mean {self.mean.value:.6g} ± "
            f"{self.mean.standard_error:.2g}, {self.reports:,} reports; one malicious client can move it anywhere)"
        )
