"""Noisy SGD by three samplers: what is proved, what is possible, and what is printed for a run that was shuffled."""

from collections.abc import Callable

from figures.figure import Axis, Curve, CurveFigure, Dot, pointwise
from figures.gallery import figure
from figures.palette import BEST, BLUE, GREEN, GREY, VERMILION, Ink
from shoal.sgd.bounds import plain
from shoal.sgd.comparisons import poisson_comparison
from shoal.sgd.run import Run
from shoal.sgd.run_limits import lower_bound

__all__ = ["permutation"]

_STEPS, _SIZE, _EPOCHS, _DELTA = 235, 256, 10, 1e-6
_PLAIN, _PERMUTED, _LEAST = "any order, proven", "permutation, proven", "permutation, at least"
_SAMPLED, _PRINTED, _ALLOCATED = "Poisson, proven", "Poisson, not valid if shuffled", "allocation, proven"


def _run(sampling: str, multiplier: float) -> Run:
    return Run(
        examples=_STEPS * _SIZE,
        batch_size=_SIZE,
        epochs=_EPOCHS,
        noise_multiplier=multiplier,
        adjacency="zero-out",
        sampling=sampling,
    )


def _proven(sampling: str) -> Callable[[float], float]:
    def epsilon(multiplier: float) -> float:
        run = _run(sampling, multiplier)
        return run.sampler.epsilon(run, _DELTA)

    return epsilon


def _unshuffled(multiplier: float) -> float:
    return plain(_run("permutation", multiplier), _DELTA).epsilon


def _least(multiplier: float) -> float:
    return lower_bound(_run("permutation", multiplier), delta=_DELTA)


def _printed(multiplier: float) -> float:
    return poisson_comparison(_run("permutation", multiplier), delta=_DELTA).poisson_epsilon


@figure("permutation", order=12)
def permutation() -> CurveFigure:
    """Return ε against the noise multiplier."""

    def curve(label: str, function: Callable[[float], float], ink: Ink) -> Curve:
        return Curve(label, pointwise(function), ink, chunk=2)

    return CurveFigure(
        name="permutation",
        title="Noisy SGD: how the batches are drawn decides what ε is",
        caption=(
            f"{_EPOCHS} epochs over {_STEPS * _SIZE:,} examples in batches of {_SIZE}, δ = 1e-6, one example zeroed. "
            "What Poisson accounting prints is a guarantee if every example was drawn by coins (green). For a run over "
            "a permutation it prints the same (dashes on the green): no guarantee, and below what is possible (black)."
        ),
        axis=Axis("noise multiplier", "noise multiplier", 0.5, 4.0, points=25, ticks=(0.5, 0.7, 1, 1.5, 2, 3, 4)),
        label="ε",
        value_ticks=(0.2, 0.5, 1, 2, 5, 10, 20, 50),
        curves=(
            curve(_PLAIN, _unshuffled, Ink(GREY)),
            curve(_PERMUTED, _proven("permutation"), Ink(VERMILION, width=2.8)),
            curve(_LEAST, _least, BEST),
            curve(_SAMPLED, _proven("poisson"), Ink(GREEN, width=7.0)),
            curve(_ALLOCATED, _proven("allocation"), Ink(BLUE, width=2.2)),
            curve(
                _PRINTED, _printed, Ink(VERMILION, "dashed", 2.6)
            ),  # last, and so on top of the same numbers in green
        ),
        dots=(
            Dot(_LEAST, 1.0, "at least {}", limit=True),
            Dot(_PRINTED, 1.0, "printed {}"),
            Dot(_ALLOCATED, 1.0, "allocation {}"),
        ),
    )
