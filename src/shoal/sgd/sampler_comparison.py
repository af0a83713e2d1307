"""The same run by every sampler that can do it: which one has the smallest ε, or needs the least noise."""

from dataclasses import replace

from shoal.errors import ParameterError
from shoal.progress import progress
from shoal.sgd.guarantees import Guarantee, guarantee
from shoal.sgd.noise_calibration import calibrate
from shoal.sgd.run import Run
from shoal.sgd.sampler import SAMPLERS

__all__ = ["compare_samplers"]

_PREFERRED, _WITHIN = "allocation", 1.01
"""It uses every example once an epoch, so it comes first where it is this near to the best."""


def compare_samplers(run: Run, *, delta: float, epsilon: float | None = None) -> tuple[Guarantee, ...]:
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

    return tuple(sorted(results, key=rank))
