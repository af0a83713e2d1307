"""The plan of a sum: the levels and the protocol with the least error under a central guarantee."""

import math

from shoal.calibration.target import target_of
from shoal.checks import Number, whole
from shoal.composition.ledger import Ledger
from shoal.errors import ParameterError, UnreachableError
from shoal.frequency.fit import Question
from shoal.randomizers import Covered, Dummies
from shoal.randomizers.levels import Levels, best_steps
from shoal.randomizers.number_range import NumberRange

__all__ = ["plan_sum"]

_DELTA = 1e-6
_MOST_TIMES = 10**9
_MOST_STEPS = 1 << 12
"""More would round less where the noise is next to nothing; numbers are rounded with 50 of 63 bits below a step."""
_SHORTEST, _LONGEST = 1e-100, 1e100
"""Of an interval: the square of a sum of many such lengths is a number, and not 0."""


def plan_sum(
    *,
    reports: Number,
    epsilon: Number | None = None,
    delta: Number | None = None,
    lower: Number = 0.0,
    upper: Number = 1.0,
    covers: bool = False,
    times: Number = 1,
    ledger: Ledger | None = None,
) -> Levels:
    """Return levels with the least error of the sum of n numbers under a central guarantee.

    Parameters
    ----------
    reports : int
        n, how many people send a number in a round. With covers, those who certainly take part.
    epsilon, delta : float
        The central guarantee that must hold for all rounds together; δ is 1e-6 if not given.
    lower, upper : float
        The interval of the numbers.
    covers : bool
        Whether people add covers, at about twice the error, instead of dummies from the shuffler.
    times : int
        How many such sums of the same people there will be.
    ledger : Ledger, optional
        What was released about the same people before. What is left of its budget is the target.

    Examples
    --------
    >>> levels = plan_sum(reports=1e5, epsilon=0.5)
    >>> levels
    Levels(protocol=Dummies(categories=28, epsilon=0.5, limit=50, helpers=1), lower=0.0, upper=1.0)
    >>> round(math.sqrt(levels.variance(reports=1e5)), 2)
    10.68
    """
    if delta is None and (ledger is None or ledger.limit is None):
        delta = _DELTA
    people = whole(reports=reports, least=2)
    target, rounds = target_of(epsilon, delta, ledger), whole(times=times, most=_MOST_TIMES)
    length = NumberRange(float(lower), float(upper)).length
    if not _SHORTEST <= length <= _LONGEST:
        raise ParameterError(
            f"upper − lower must be from {_SHORTEST:g} to {_LONGEST:g}, got {length:g}; use other units"
        )
    kind = Covered if covers else Dummies
    tried: dict[int, Levels] = {}
    steps = 1
    while steps not in tried:  # the noise of a level hardly depends on how many there are
        made = Question(steps + 1, people, rounds, target, math.inf, messages=2).likely(kind)
        if not isinstance(made, (Covered, Dummies)) or getattr(made, "response", None) is not None:
            break
        tried[steps] = Levels(protocol=made, lower=float(lower), upper=float(upper))
        noise = float(made.variance(reports=people)[0]) * people**2
        steps = min(_MOST_STEPS, best_steps(people, noise / (1 - 1 / (steps + 1)) if covers else noise))
    if not tried:
        raise UnreachableError(
            f"{people:,} people are too few for covers with epsilon={target.epsilon:g} and delta={target.delta:g}; let "
            "the shuffler add dummies, or take a larger epsilon or delta"
            if covers
            else f"no dummies keep epsilon={target.epsilon:g} and delta={target.delta:g}; take larger ones"
        )
    return min(tried.values(), key=lambda levels: levels.variance(reports=people))
