"""The guarantee of a run, as the smallest of all proven bounds by name, and the least noise for a guarantee."""

import math
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from shoal.assumptions import Assumption, Topic
from shoal.calibration.target import ROOM
from shoal.checks import positive, probability
from shoal.digits import rounded_up
from shoal.documentation import linked
from shoal.errors import NoPairError, UnreachableError
from shoal.numerics.noise import gaussian_epsilon
from shoal.progress import waiting
from shoal.rounding import slack
from shoal.sgd.bounds import THEOREMS, Bound, bounds
from shoal.sgd.run import Run
from shoal.sgd.sampler import OVERFULL
from shoal.shown import Shown

if TYPE_CHECKING:
    from shoal.proofs.certificate import Certificate

FIXED = "the number of epochs was fixed beforehand"
LABELS = "the set of labels is public: it was read from the data, and the guarantee does not protect it"
FINEST = 1e-12
"""A smaller δ is that of real-valued noise, and more than a computer can do."""
_LEAST = 1e-3
_MOST = 1e9
"""The least and the greatest noise multiplier that is tried."""
_FINE = 1e-3
"""How far from the smallest multiplier the answer may be, relatively."""


@dataclass(frozen=True)
class Guarantee(Shown):
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
    labels_from_data : bool
        Whether the classes of the model were read from the data.

    Examples
    --------
    >>> result = guarantee(Run(examples=1_000_000, noise_multiplier=2), delta=1e-6)
    >>> result  # doctest: +NORMALIZE_WHITESPACE
    Guarantee(ε=0.0119465 at δ=1e-06, gaussian-clones, 1,000,000 examples, 1 epoch fixed beforehand, replace;
    plain 4.88656)
    >>> round(result.local_epsilon, 2), [other.name for other in result.alternatives]
    (4.89, ['plain'])
    """

    run: Run
    epsilon: float
    delta: float
    bound: str
    alternatives: tuple[Bound, ...]
    local_epsilon: float
    elements: str = ""
    at_most: bool = False
    labels_from_data: bool = False

    @property
    def theorem(self) -> str:
        """Where the bound is proved."""
        return linked(THEOREMS[self.bound].citation)

    @property
    def plain_epsilon(self) -> float:
        """What holds for any order."""
        return next((other.epsilon for other in self.alternatives if other.name == "plain"), self.epsilon)

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        """What has to be true of the run."""
        run = self.run
        lines = [
            Assumption(
                f"neighbours: {neighbours_of(run)}",
                Topic.NEIGHBOURS,
                if_fails="of datasets that differ otherwise, or in more, nothing is said",
            ),
            Assumption(
                f"every gradient is clipped to norm {run.clip_norm:g}, and sums are divided by a number known "
                "beforehand"
            ),
            Assumption(f"no example touches another's gradient (no BatchNorm), and each is used {run.usage}"),
            Assumption(
                f"no more than {run.epochs:,} epochs are made; that number was fixed beforehand"
                if self.at_most
                else f"{FIXED}, and not by what was seen; else ε is that of the most that might have been made",
                Topic.EPOCHS,
                if_fails="ε is that of the most epochs that might have been made",
            ),
        ]
        if self.labels_from_data:
            lines.append(Assumption(LABELS, if_fails="that a label occurs in the data is disclosed"))
        if self.delta < FINEST:
            lines.append(Assumption(f"noise is real-valued: a computer's is not fine enough for δ below {FINEST:g}"))
        if self.bound != "plain":
            lines.append(Assumption(run.sampler.assumption, Topic.SAMPLING))
        if run.noise == "example" and run.releases == "sums":
            lines.append(Assumption("nothing but the noised sums of batches is seen"))
        return tuple(lines)

    def explain(self) -> str:
        """Return the guarantee, what it rests on, and what other bounds give, as text."""
        lines = [repr(self), f"  {self.bound}: {self.theorem}"]
        if self.elements == "examples" and self.run.noise == "batch" and self.run.batch_size > 1:
            lines.append("  the noise of a batch is taken as the sum of equal parts for its slots")
        lines.append(f"  one noised gradient by itself: ε₀ = {rounded_up(self.local_epsilon, 4)} at the same δ")
        lines += [f"  assumes: {line}" for line in self.assumptions]
        for other in self.alternatives:
            value = rounded_up(other.epsilon, 4) if math.isfinite(other.epsilon) else "says nothing of this run"
            kind = f" ({other.elements})" if other.elements else ""
            lines.append(f"  {other.name + kind:28} {value}")
        return "\n".join(lines)

    def certify(self, *, delta: float) -> "Certificate":
        """Return a proof in ball arithmetic of the ε of the run at δ, or of at most a thousandth of it more.

        Raises
        ------
        NoPairError
            For a sampler of one's own, of which no theorem is known there.
        """
        from shoal.proofs.certificate import Certificate
        from shoal.proofs.training_claim import ParticipationClaim, TrainingClaim

        if delta != self.delta:
            return guarantee(self.run, delta=delta).certify(delta=delta)
        run = self.run
        best = bounds(self.run, self.delta)[0]
        if run.sampling == self.bound in ("allocation", "poisson") and run.steps % run.participations == 0:
            steps = run.steps // run.participations
            times = run.epochs * run.participations
            numerator, denominator = run.rate.as_integer_ratio() if self.bound == "poisson" else (1, steps)
            return Certificate.prove(
                ParticipationClaim(
                    self.bound, steps, numerator, denominator, run.multiplier, times, run.adjacency,
                    self.delta * OVERFULL,
                ),
                epsilon=self.epsilon,
                delta=self.delta,
            )  # fmt: skip
        if run.sampling not in ("permutation", "fixed-order"):
            raise NoPairError(
                f'bound="{self.bound}" of sampling="{run.sampling}" has no proof in ball arithmetic; use a sampler of '
                "shoal, for allocation more than one step an epoch, and participations that divide the steps"
            )
        claimed = {each.name for each in fields(TrainingClaim)}
        claim = TrainingClaim(
            **{name: value for name, value in run.to_dict().items() if name in claimed},
            bound=self.bound,
            elements=self.elements,
            hint=best.local_epsilon if math.isfinite(best.local_epsilon) else 1.0,
            shown=max(1, best.number // run.steps) if best.elements == "representatives" else 1,
        )
        return Certificate.prove(claim, epsilon=self.epsilon, delta=self.delta)

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
            "assumptions": [str(each) for each in self.assumptions],
            "at_most": self.at_most,
            "run": self.run.to_dict(),
        }

    @property
    def _rows(self) -> list[tuple[str, float]]:
        """All bounds by name, with what each takes as shuffled, and their ε."""
        best = (self.bound, self.elements, self.epsilon)
        others = ((other.name, other.elements, other.epsilon) for other in self.alternatives)
        return [(f"{name} ({kind})" if kind else name, epsilon) for name, kind, epsilon in (best, *others)]

    def _columns(self) -> dict[str, list[Any]]:
        return {"bound": [name for name, _ in self._rows], "epsilon": [epsilon for _, epsilon in self._rows]}

    def _cells(self) -> dict[str, list[str]]:
        epsilons = [rounded_up(value) if math.isfinite(value) else "says nothing" for _, value in self._rows]
        return {"bound": [name for name, _ in self._rows], f"ε at δ = {self.delta:g}": epsilons}

    def __repr__(self) -> str:
        """Show the guarantee in one line."""
        run = self.run
        batches = f" in batches of {run.batch_size:,}" if run.batch_size > 1 else ""
        epochs = f"{run.epochs:,} epoch{'s' if run.epochs > 1 else ''}"
        epochs = f"at most {epochs}" if self.at_most else f"{epochs} fixed beforehand"
        plain = f"; plain {rounded_up(self.plain_epsilon)}" if self.plain_epsilon > self.epsilon else ""
        examples = f"{run.examples:,} examples" if run.examples else f"examples in {run.steps:,} steps"
        return (
            f"Guarantee(ε={rounded_up(self.epsilon)} at δ={self.delta:g}, {self.bound}, {examples}{batches}, {epochs}, "
            f"{run.adjacency}{plain})"
        )


def neighbours_of(run: Run) -> str:
    """Return what two neighbouring datasets differ in."""
    if run.adjacency == "add-remove":
        return (
            f"one example added or removed; how many there are is a secret, at most {run.most_examples:,}, and no "
            "setting of the run is computed from it"
        )
    what = "replaced by another" if run.adjacency == "replace" else "left out of its batch, its slot empty"
    why = "" if "add-remove" in run.sampler.adjacencies else ", which shifts later batches"
    return f"one of {run.examples:,} examples {what}; not added or removed{why}"


def guarantee(run: Run, *, delta: float) -> Guarantee:
    """Return the smallest of all proven bounds for exactly this run.

    Parameters
    ----------
    run : Run
        What is done. Its sampler says which theorems hold.
    delta : float
        δ of the guarantee.

    Returns
    -------
    Guarantee
        With `.epsilon`, `.bound`, `.alternatives`, `.local_epsilon`.

    Examples
    --------
    >>> run = Run(examples=60_000, batch_size=64, noise_multiplier=16)
    >>> guarantee(run, delta=1e-6)  # doctest: +NORMALIZE_WHITESPACE
    Guarantee(ε=0.0149604 at δ=1e-06, representatives, 60,000 examples in batches of 64, 1 epoch fixed
    beforehand, replace; plain 0.503856)
    >>> run = Run(examples=60_000, batch_size=256, noise_multiplier=1, sampling="allocation")
    >>> guarantee(run, delta=1e-6)  # doctest: +NORMALIZE_WHITESPACE
    Guarantee(ε=0.60... at δ=1e-06, allocation, 60,000 examples in batches of 256, 1 epoch fixed beforehand, replace;
    plain 10.99...)
    """
    delta = probability(delta=delta)
    best, *others = bounds(run, delta)
    alone = gaussian_epsilon(run.multiplier / 2 / (1 + slack(32)), delta)
    return Guarantee(run.public, best.epsilon, delta, best.name, tuple(others), alone, best.elements)


def calibrate(run: Run, *, epsilon: float, delta: float) -> Run:
    """Return the run with the smallest noise multiplier, within 0.1 %, for which a certificate proves (ε, δ)-DP.

    A certificate may prove up to 0.1 % more than the computed ε, and so the computed ε is 0.1 % below the target.

    Parameters
    ----------
    run : Run
        What is done; its `noise_multiplier` is None, or is not looked at.
    epsilon, delta : float
        The guarantee.

    Examples
    --------
    >>> from shoal.sgd import guarantee
    >>> run = calibrate(Run(examples=1_000_000), epsilon=0.1, delta=1e-6)
    >>> round(run.noise_multiplier, 3), guarantee(run, delta=1e-6).epsilon <= 0.1
    (1.112, True)
    """
    target = positive(epsilon=epsilon)
    delta = probability(delta=delta)
    return replace(run, noise_multiplier=_least_multiplier(replace(run, noise_multiplier=None), target, delta))


@lru_cache(maxsize=64)  # a search over learning rates, and a training that is resumed, ask for the same noise again
def _least_multiplier(run: Run, target: float, delta: float) -> float:
    def proven(log_multiplier: float) -> float:
        return run.sampler.epsilon(with_noise(log_multiplier), delta)

    def estimated(log_multiplier: float) -> float:
        return run.sampler.estimate(with_noise(log_multiplier), delta)

    def with_noise(log_multiplier: float) -> Run:
        return replace(run, noise_multiplier=math.exp(log_multiplier))

    low = math.log(_LEAST)
    high = math.log(_MOST)
    goal = target * (1 - ROOM)
    with waiting(f"choosing the noise for ε = {target:g}"):
        if proven(high) > goal:
            raise UnreachableError(
                f"no noise multiplier up to {_MOST:g} gives epsilon={target:g} at delta={delta:g}; use a larger delta"
            )
        if estimated(low) <= target and proven(low) <= goal:  # a proof for so little noise takes seconds
            return _LEAST
        middle = _crossing(estimated, goal, low, high, fine=_FINE / 4, start=0.5 * (low + high))
        return math.exp(_crossing(proven, goal, low, high, fine=_FINE, start=middle))


def _crossing(
    value: Callable[[float], float], target: float, low: float, high: float, *, fine: float, start: float
) -> float:
    """Return a point at which a falling value is at most the target, by secant steps on its logarithm in a bracket.

    Next to the root it looks a little to the other side, so that the bracket becomes short; farther, if that fails.
    """
    point = start
    before = (math.nan, math.nan)
    width = fine
    while high - low > fine:
        reached = value(point)
        height = (
            math.log(reached) - math.log(target) if 0 < reached < math.inf else math.copysign(50.0, reached - target)
        )
        low, high = (point, high) if reached > target else (low, point)
        slope = (height - before[1]) / (point - before[0]) if before[0] != point else math.nan
        before = (point, height)
        move = -height / (slope if slope < -0.2 else -1.0)
        if abs(move) > 0.45 * fine:
            point += move + 0.3 * fine  # a little past the root
        else:  # which is here: the other end of the bracket is wanted
            point = point + math.copysign(0.9 * width, move)
            width = 4 * width
        if not low < point < high:
            point = 0.5 * (low + high)
    return high
