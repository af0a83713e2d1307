"""Plans for numbers: the levels of a sum and the tree of quantiles with the least error under a central guarantee."""

import math
from dataclasses import replace

from shoal.calibration.target import target_of
from shoal.checks import Number, whole
from shoal.composition.ledger import Ledger
from shoal.errors import ParameterError, UnreachableError
from shoal.mechanisms import Covered, Dummies, QuantileTree
from shoal.mechanisms.levels import Levels, best_steps
from shoal.mechanisms.number_range import NumberRange
from shoal.planning.fit import Question, likely_dummies, likely_plain_covers

_DELTA = 1e-6
_MOST_TIMES, _MOST_LEAVES = 10**6, 1 << 16
_MOST_DEPTH = 6
_WORTH = 0.95
"""One more depth, with its messages, is worth it if the error is at most this part of that without it."""
_MOST_SUMS = 10**9
_MOST_STEPS = 1 << 12
"""More would round less where the noise is next to nothing; numbers are rounded with 50 of 63 bits below a step."""
_SHORTEST, _LONGEST = 1e-100, 1e100
"""Of an interval: the square of a sum of many such lengths is a number, and not 0."""


def plan_quantiles(
    *,
    reports: Number,
    epsilon: Number | None = None,
    delta: Number | None = None,
    lower: Number = 0.0,
    upper: Number = 1.0,
    leaves: Number = 1024,
    depth: Number | None = None,
    covers: bool = False,
    rounds: Number = 1,
    ledger: Ledger | None = None,
) -> QuantileTree:
    """Return the tree with the least error of the distribution of n numbers under a central guarantee.

    With one depth, it is a histogram of the leaves; with more, every person is counted once at each, and all depths
    together keep the guarantee. Which is best depends on the number of leaves: with dummies, one depth up to about 70,
    two up to about 2,000, and then three; with covers, two depths are worth it from about 25 leaves on. A depth more is
    taken if it makes the error 5 % smaller.

    Parameters
    ----------
    reports : int
        n, how many people there are in a round. With covers, those who certainly take part.
    epsilon, delta : float
        The central guarantee that must hold for all rounds together; δ is 1e-6 if not given.
    lower, upper : float
        The interval of the numbers.
    leaves : int
        How many leaves there are at least: a quantile is known to a leaf or two at best.
    depth : int, optional
        The number of depths; the best if not given.
    covers : bool
        Whether people add covers, instead of dummies from the shuffler.
    rounds : int
        How many such rounds of the same people there will be.
    ledger : Ledger, optional
        What was released about the same people before. What is left of its budget is the target.

    Examples
    --------
    >>> tree = plan_quantiles(reports=1e5, epsilon=0.5)
    >>> tree.depth, tree.leaves
    (2, 1024)
    """
    if delta is None and (ledger is None or ledger.limit is None):
        delta = _DELTA
    people, target = whole(reports=reports, least=2), target_of(epsilon, delta, ledger)
    rounds, least = whole(rounds=rounds, most=_MOST_TIMES), whole(leaves=leaves, least=2, most=_MOST_LEAVES)
    depths = range(1, min(_MOST_DEPTH, math.ceil(math.log2(least))) + 1)
    if depth is not None:
        depths = range(*(whole(depth=depth, most=len(depths)) + more for more in (0, 1)))
    best: QuantileTree | None = None
    for number in depths:
        fan = _root(least, number)
        asked = Question(fan**number, people, rounds * number, target, math.inf, messages=2)
        leaf = likely_plain_covers(asked) if covers else likely_dummies(asked)
        if leaf is None:
            break  # and more depths, each with fewer covers, have none either
        protocols = tuple(_with(leaf, fan ** (index + 1)) for index in range(number))
        tree = QuantileTree(protocols=protocols, lower=float(lower), upper=float(upper))
        if best is not None and _error(tree, people) > _WORTH * _error(best, people):
            break  # and ever more depths have ever more noise
        best = tree
    if best is None:
        raise UnreachableError(
            f"{people:,} people are too few for covers of {least:,} leaves with epsilon={target.epsilon:g} and "
            f"delta={target.delta:g}; let the shuffler add dummies, or take fewer leaves, or a larger epsilon or delta"
            if covers
            else f"no dummies keep epsilon={target.epsilon:g} and delta={target.delta:g}; take larger ones"
        )
    return best


def _error(tree: QuantileTree, people: int) -> float:
    """Return the root mean square of the errors at all edges."""
    return math.sqrt(float(tree.variance(reports=people).mean()))


def _root(leaves: int, depth: int) -> int:
    """Return the least number of children with which there are enough leaves."""
    fan = max(2, math.floor(math.exp(math.log(leaves) / depth)) - 1)
    while fan**depth < leaves:
        fan += 1
    return fan


def _with(leaf: Covered | Dummies, nodes: int) -> Covered | Dummies:
    """Return the same protocol for a depth with fewer nodes: as many covers for each, or the same dummies."""
    if isinstance(leaf, Dummies):
        return replace(leaf, categories=nodes)
    return replace(leaf, categories=nodes, fill=leaf.fill * nodes / leaf.categories)


def plan_sum(
    *,
    reports: Number,
    epsilon: Number | None = None,
    delta: Number | None = None,
    lower: Number = 0.0,
    upper: Number = 1.0,
    covers: bool = False,
    rounds: Number = 1,
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
    rounds : int
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
    target, rounds = target_of(epsilon, delta, ledger), whole(rounds=rounds, most=_MOST_SUMS)
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
