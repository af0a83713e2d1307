"""The guarantee of a run: the smallest of all proven bounds, by name."""

import math
from dataclasses import dataclass
from typing import Any

from shoal.amplification.gaussian_profile import GaussianProfile
from shoal.checks import known, probability
from shoal.digits import rounded_up
from shoal.errors import ParameterError
from shoal.sgd.bounds import Bound, bounds
from shoal.sgd.run import Run
from shoal.sgd.training_bound import THEOREMS

__all__ = ["Guarantee", "guarantee"]

_NOT_POISSON = (
    "Poisson accounting is not valid for this run: it needs every example to be in a batch or not by a coin of its "
    "own, and over a permutation the true ε can be ten times as large (Chua et al., arXiv 2403.17673). See "
    "poisson_comparison for the number that others would print"
)

FIXED = "the number of epochs was fixed beforehand"
FINEST = 1e-12
"""A smaller δ is that of real-valued noise, and more than a computer can do."""


@dataclass(frozen=True)
class Guarantee:
    """An (ε, δ) that holds for everything the run shows.

    Attributes
    ----------
    run : Run
        What was done.
    epsilon, delta : float
        The guarantee.
    bound, theorem : str
        Which bound is the smallest, and where it is proved.
    alternatives : tuple of Bound
        What the other theorems give, in ascending order; ε is infinite where one says nothing.
    local_epsilon : float
        What one noised gradient guarantees by itself at the same δ, if an example is replaced.
    at_most : bool
        Whether it also holds where fewer epochs are made, and that was decided by what was seen.

    Examples
    --------
    >>> found = guarantee(examples=1_000_000, noise_multiplier=2, delta=1e-6)
    >>> found  # doctest: +NORMALIZE_WHITESPACE
    Guarantee(ε=0.0119467 at δ=1e-06, gaussian-clones, 1,000,000 examples, 1 epoch fixed beforehand, replace;
    plain 4.88656)
    >>> round(found.local_epsilon, 2), [other.name for other in found.alternatives][:2]
    (4.89, ['two-ratios', 'strong-clones'])
    """

    run: Run
    epsilon: float
    delta: float
    bound: str
    alternatives: tuple[Bound, ...]
    local_epsilon: float
    elements: str = ""
    at_most: bool = False

    @property
    def theorem(self) -> str:
        """Where the bound is proved."""
        return THEOREMS[self.bound].citation

    @property
    def plain_epsilon(self) -> float:
        """What holds for any order."""
        return next((other.epsilon for other in self.alternatives if other.name == "plain"), self.epsilon)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What has to be true of the run."""
        run = self.run
        what = "replaced by another" if run.adjacency == "replace" else "left out of its batch, its slot empty"
        lines = [
            f"neighbours: one of {run.examples:,} examples {what}; not added or removed, which shifts later batches",
            f"every gradient is clipped to norm {run.clip_norm:g}, and sums are divided by a number known beforehand",
            "no example touches another's gradient (no BatchNorm), and each is used once a pass",
        ]
        if self.at_most:
            lines.append(f"no more than {run.epochs:,} epochs are made; that number was fixed beforehand")
        else:
            lines.append(f"{FIXED}, and not by what was seen; else ε is that of the most that might have been made")
        if self.delta < FINEST:
            lines.append(f"noise is real-valued: a computer's is not fine enough for δ below {FINEST:g}")
        if self.bound != "plain":
            lines.append("every pass has a fresh, uniformly random, secret permutation of its slots")
        if run.noise == "example" and run.releases == "sums":
            lines.append("nothing but the noised sums of batches is seen")
        return tuple(lines)

    def explain(self) -> str:
        """Return the guarantee, what it rests on, and what other bounds give, as text."""
        lines = [repr(self), f"  {self.bound}: {self.theorem}"]
        if self.elements == "examples" and self.run.noise == "batch" and self.run.batch_size > 1:
            lines.append("  the noise of a batch is taken as the sum of equal parts for its slots")
        lines.append(f"  one noised gradient by itself: ε₀ = {rounded_up(self.local_epsilon, 4)} at the same δ")
        lines += [f"  assumes: {line}" for line in self.assumptions]
        for other in self.alternatives:
            value = rounded_up(other.epsilon, 4) if math.isfinite(other.epsilon) else "says nothing here"
            kind = f" ({other.elements})" if other.elements else ""
            lines.append(f"  {other.name + kind:28} {value}")
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Return everything, for JSON; an infinite ε is None."""
        return {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "bound": self.bound,
            "elements": self.elements,
            "theorem": self.theorem,
            "local_epsilon": self.local_epsilon,
            "plain_epsilon": self.plain_epsilon,
            "alternatives": [
                {
                    "bound": other.name,
                    "elements": other.elements,
                    "epsilon": other.epsilon if math.isfinite(other.epsilon) else None,
                }
                for other in self.alternatives
            ],
            "assumptions": list(self.assumptions),
            "at_most": self.at_most,
            "run": self.run.to_dict(),
        }

    def __repr__(self) -> str:
        """Show the guarantee in one line."""
        run = self.run
        batches = f" in batches of {run.batch_size:,}" if run.batch_size > 1 else ""
        epochs = f"{run.epochs:,} epoch{'s' if run.epochs > 1 else ''}"
        epochs = f"at most {epochs}" if self.at_most else f"{epochs} fixed beforehand"
        plain = f"; plain {rounded_up(self.plain_epsilon)}" if self.bound != "plain" else ""
        return (
            f"Guarantee(ε={rounded_up(self.epsilon)} at δ={self.delta:g}, {self.bound}, {run.examples:,} examples"
            f"{batches}, {epochs}, {run.adjacency}{plain})"
        )


def guarantee(
    *,
    examples: int,
    batch_size: int = 1,
    noise_multiplier: float,
    clip_norm: float = 1.0,
    epochs: int = 1,
    delta: float,
    noise: str = "batch",
    releases: str = "every-step",
    adjacency: str = "replace",
    order: str = "fresh",
    sampling: str = "permutation",
) -> Guarantee:
    """Return the smallest of all proven bounds for exactly this run.

    Parameters
    ----------
    examples, batch_size, noise_multiplier, clip_norm, epochs, noise, releases, adjacency, order : int, float, str
        See `Run`.
    delta : float
        δ of the guarantee.
    sampling : str
        "permutation"; anything else is refused, with the reason.

    Returns
    -------
    Guarantee
        With `.epsilon`, `.bound`, `.alternatives`, `.local_epsilon`.

    Examples
    --------
    >>> guarantee(examples=60_000, batch_size=64, noise_multiplier=16, delta=1e-6)  # doctest: +NORMALIZE_WHITESPACE
    Guarantee(ε=0.0542324 at δ=1e-06, gaussian-clones, 60,000 examples in batches of 64, 1 epoch fixed
    beforehand, replace; plain 0.503856)
    >>> guarantee(examples=60_000, batch_size=64, noise_multiplier=0.8, delta=1e-6, sampling="poisson")
    Traceback (most recent call last):
    ...
    shoal.errors.ParameterError: Poisson accounting is not valid for this run: it needs every example to be in a ...
    """
    if sampling == "poisson":
        raise ParameterError(_NOT_POISSON)
    known(("permutation",), sampling=sampling)
    run = Run(
        examples=examples,
        batch_size=batch_size,
        noise_multiplier=noise_multiplier,
        clip_norm=clip_norm,
        epochs=epochs,
        noise=noise,
        releases=releases,
        adjacency=adjacency,
        order=order,
    )
    delta = probability(delta=delta)
    best, *others = bounds(run, delta)
    alone = GaussianProfile(1, run.noise_multiplier / 2 / (1 + 2.0**-48)).alone(delta)
    return Guarantee(run, best.epsilon, delta, best.name, tuple(others), alone, best.elements)
