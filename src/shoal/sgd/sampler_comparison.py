"""The same run by every sampler that can do it: which one has the smallest ε, or needs the least noise."""

from dataclasses import replace
from typing import Any

from shoal.charts.scale import Axis, number_text
from shoal.charts.shown import Shown
from shoal.charts.svg_chart import Chart
from shoal.digits import rounded_up
from shoal.errors import ParameterError
from shoal.progress import progress
from shoal.sgd.guarantees import Guarantee, guarantee
from shoal.sgd.noise_calibration import calibrate
from shoal.sgd.run import Run
from shoal.sgd.sampler import SAMPLERS

__all__ = ["SamplerTable", "compare_samplers"]

_PREFERRED, _WITHIN = "allocation", 1.01
"""It uses every example once an epoch, so it comes first where it is this near to the best."""
_KEPT = "kept-allocation"
"""For one epoch it is an allocation, and not shown."""


class SamplerTable(tuple[Guarantee, ...], Shown):
    """The answer of `compare_samplers`: a guarantee by each sampler, the recommended one first."""

    __slots__ = ()

    def _columns(self) -> dict[str, list[Any]]:
        return {
            "sampling": [each.run.sampling for each in self],
            "epsilon": [each.epsilon for each in self],
            "delta": [each.delta for each in self],
            "noise_multiplier": [each.run.multiplier for each in self],
            "bound": [each.bound for each in self],
        }

    def _cells(self) -> dict[str, list[str]]:
        return {
            "sampling": [each.run.sampling for each in self],
            "ε": [rounded_up(each.epsilon) for each in self],
            "noise": [f"{each.run.multiplier:.6g}" for each in self],
            "bound": [each.bound for each in self],
        }

    def _caption(self) -> str:
        return "the same run by every sampler, the recommended one first"

    def chart(self) -> Chart:
        """Return a bar for each sampler: its ε, or, where all have the same, the noise that it needs."""
        same = len({rounded_up(each.epsilon, 3) for each in self}) == 1 < len({each.run.multiplier for each in self})
        values = [each.run.multiplier if same else each.epsilon for each in self]
        texts = [f"{value:.4g}" if same else rounded_up(value, 4) for value in values]
        names = tuple(each.run.sampling for each in self)
        what = "noise multiplier" if same else f"ε at δ = {number_text(self[0].delta)}"
        chart = Chart(
            Axis(what, "log"),
            Axis("", names=names),
            "The same run by every sampler",
            f"{what}: " + ", ".join(f"{name} {text}" for name, text in zip(names, texts, strict=True)),
        )
        chart.bars(values, texts=texts)
        return chart


def compare_samplers(run: Run, *, delta: float, epsilon: float | None = None) -> SamplerTable:
    """Return the guarantees of a run by each sampler that can do it, the recommended one first.

    A guarantee is that of what *was* drawn: the comparison is for choosing before the training begins.

    Parameters
    ----------
    run : Run
        What is done; its `sampling` is not looked at.
    delta : float
        δ of the guarantees.
    epsilon : float, optional
        ε that each must have; then the noise is calibrated for each sampler, and the least noise comes first.

    Examples
    --------
    >>> run = Run(examples=6_000, batch_size=60, noise_multiplier=2)
    >>> [each.run.sampling for each in compare_samplers(run, delta=1e-6)][:2]
    ['allocation', 'poisson']
    """
    runs = list[Run]()
    for name, sampler in SAMPLERS.items():
        if name == _KEPT and run.epochs == 1:
            continue
        try:
            runs.append(replace(run, sampling=name, public_steps=run.public_steps if sampler.any_steps else None))
        except ParameterError:
            continue
    results = list[Guarantee]()
    for each in progress(runs, total=len(runs), label="comparing samplers"):
        chosen = each if epsilon is None else calibrate(each, epsilon=epsilon, delta=delta)
        results.append(guarantee(chosen, delta=delta))

    def cost(result: Guarantee) -> float:
        return result.epsilon if epsilon is None else result.run.multiplier

    least = min(map(cost, results))

    def rank(result: Guarantee) -> tuple[bool, float]:
        return not (result.run.sampling == _PREFERRED and cost(result) <= _WITHIN * least), cost(result)

    return SamplerTable(sorted(results, key=rank))
