"""Does a protocol of several messages keep its promise? A lower bound on its central ε, from many runs of all people.

One person holds one of two categories, and all others hold the first. The statistic is what the likelihood ratio grows
with: of covers, how many messages support the one category over how many support the other, those of the others taken
off; of dummies, the difference of the two counts. With split and mix one person holds one of two numbers, all others
the second, and the statistic is the sum of all messages.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from shoal.amplification.amplify import amplify
from shoal.auditing import Audit, probability_above, probability_below
from shoal.checks import Number, probability, whole
from shoal.errors import ParameterError
from shoal.mechanisms import Bundled, Dummies
from shoal.mechanisms.coins import Simulation, coins_for
from shoal.mechanisms.split_and_mix import SplitAndMix
from shoal.progress import progress

__all__ = ["ProtocolAudit", "audit_protocol"]

Floats = NDArray[np.float64]

_MESSAGES = 1 << 21
"""About so many messages are in memory at once."""


@dataclass(frozen=True, repr=False)
class ProtocolAudit(Audit):
    """What many runs of a whole round have shown of its central ε.

    Attributes
    ----------
    people : int
        How many there were in each run.
    delta : float
        The δ that goes with ε.
    """

    people: int = 0
    delta: float = 0.0

    symbol: ClassVar[str] = "central ε"


def audit_protocol(
    mechanism: Bundled | SplitAndMix,
    inputs: tuple[Any, Any],
    people: Number,
    delta: float,
    trials: int,
    *,
    confidence: float,
    simulation: Simulation | None,
) -> ProtocolAudit:
    """Return a lower bound on the central ε at δ that holds with this confidence; `shoal.audit` checks the arguments.

    Half of the trials choose how large the statistic must be, and the rest give Clopper and Pearson's limits: with P at
    least p and Q at most q, ε is at least ln((p − δ)/q).
    """
    count, delta = whole(people=people), probability(delta=delta, zero=True)
    first, second = inputs
    if isinstance(mechanism, Bundled):
        first, second = (whole(input=value, least=0, most=mechanism.categories - 1) for value in inputs)
    if first == second:
        raise ParameterError(f"an audit needs two different inputs, got {first} twice")
    risk = (1 - confidence) / 2
    claimed = amplify(mechanism, reports=count).epsilon(delta)
    kind = _Rounds if isinstance(mechanism, Bundled) else _Sums
    rounds = kind(mechanism, (first, second), count, simulation)
    least = _threshold(*(rounds.statistics(side, trials // 2) for side in (0, 1)), delta=delta)
    judged = [rounds.statistics(side, trials - trials // 2) for side in (0, 1)]
    more, less = (int(np.count_nonzero(values >= least)) for values in judged)
    low, high = probability_above(more, len(judged[0]), risk), probability_below(less, len(judged[1]), risk)
    bound = math.log((low - delta) / high) * (1 - 1e-12) if low - delta > high else 0.0
    return ProtocolAudit(
        mechanism=mechanism,
        first=first,
        second=second,
        lower=bound,
        claimed=claimed,
        event=f"rounds in which {_words(mechanism)} is at least {least:.6g}",
        confidence=float(confidence),
        trials=trials,
        people=count,
        delta=delta,
    )


def _words(mechanism: Bundled | SplitAndMix) -> str:
    if isinstance(mechanism, SplitAndMix):
        return "the sum of all messages, that of the others taken off,"
    kind = "difference" if isinstance(mechanism, Dummies) else "ratio"
    return f"the {kind} of the counts of the two categories, those of all others taken off,"


@dataclass(frozen=True)
class _Rounds:
    """A protocol that is run with one person at either of two categories, and all others at the first."""

    mechanism: Any
    inputs: tuple[Any, Any]
    people: int
    simulation: Simulation | None

    @property
    def bundle(self) -> int:
        """How many messages a person sends."""
        return int(self.mechanism.bundle)

    def statistics(self, side: int, trials: int) -> Floats:
        """Return the statistic of this many rounds in which the one person holds this one of the inputs."""
        size = max(1, _MESSAGES // (self.people * self.bundle))
        starts = range(0, trials, size)
        shown = progress(starts, total=len(starts), label="audit")
        return np.concatenate([self._some(side, min(size, trials - start)) for start in shown])

    def _some(self, side: int, rounds: int) -> Floats:
        mechanism = self.mechanism
        values = np.full((rounds, self.people), self.inputs[0])
        values[:, 0] = self.inputs[side]
        messages = mechanism.randomize(values.ravel(), simulation=self.simulation).reshape(-1)
        one, other = (
            mechanism.supports(messages, np.full(len(messages), value)).reshape(rounds, -1).sum(axis=1)
            for value in self.inputs
        )
        if isinstance(mechanism, Dummies):
            noise = mechanism.noise(coins_for(self.simulation), 2 * rounds * mechanism.helpers).reshape(2, rounds, -1)
            return np.asarray(one - other + noise[0].sum(axis=1) - noise[1].sum(axis=1), np.float64)
        known = self.people - 1 if mechanism.moments.own[0] >= 1 else 0  # messages of the others, if they are certain
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.nan_to_num(np.asarray((one - known) / other, np.float64), nan=0.0, posinf=math.inf)


@dataclass(frozen=True)
class _Sums(_Rounds):
    """Split and mix, run with one person at either of two numbers, and all others at the second."""

    @property
    def bundle(self) -> int:
        """How many messages a person sends."""
        return int(self.mechanism.messages)

    def _some(self, side: int, rounds: int) -> Floats:
        mechanism, (first, second) = self.mechanism, self.inputs
        values = np.full((rounds, self.people), second, np.float64)
        values[:, 0] = self.inputs[side]
        messages = mechanism.randomize(values.ravel(), simulation=self.simulation).reshape(rounds, -1)
        others = round((second - mechanism.lower) / (mechanism.upper - mechanism.lower) * mechanism.steps * self.people)
        half = mechanism.modulus // 2
        shifted = messages.sum(axis=1, dtype=np.uint64) + np.uint64((half - others) % mechanism.modulus)
        sums = (shifted & np.uint64(mechanism.modulus - 1)).astype(np.float64) - half
        return np.asarray(sums if first > second else -sums, np.float64)


def _threshold(first: Floats, second: Floats, *, delta: float) -> float:
    """Return the least value of the statistic that makes the ratio largest, as far as few runs can tell."""
    ordered = np.sort(first)
    places = np.unique(np.linspace(0, len(ordered) - 1, 400).astype(np.int64))
    levels = np.unique(ordered[places])
    more = len(first) - np.searchsorted(ordered, levels)
    less = len(second) - np.searchsorted(np.sort(second), levels)
    low = np.maximum(more - 4 * np.sqrt(more) - delta * len(first), 1e-9)
    return float(levels[int(np.argmax(low / (less + 4 * np.sqrt(less) + 8)))])
