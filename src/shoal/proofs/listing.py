"""E[(S)₊] of a sum of n copies of W in balls, where few of them are unusual: a sum over their counts.

One value of W is the most likely. All combinations of the counts of the others are listed, as far as they can matter;
every term is positive, and what is beyond the list is bounded (docs/theory/numerics.md, 2.5).
"""

import math
from itertools import accumulate

from flint import arb

from shoal.proofs.balls import INFINITE, Ball, Summand, total
from shoal.proofs.work import spend

__all__ = ["MOST_TERMS", "binomial_tail", "listed"]

_DROPPED = 32.0
"""What is beyond the list is below exp(−32) of the answer."""
MOST_TERMS = 400_000
_MOST_COUNT = 100_000
_MOST_VALUES = 8


def binomial_tail(trials: int, count: int, probability: Ball) -> Ball:
    """Return Chernoff's bound of Pr(Bin(trials, probability) ≥ count), or one."""
    if count > trials:
        return arb(0)
    if not arb(count) > trials * probability:
        return arb(1)
    share = arb(count) / trials
    entropy = share * (share / probability).log()
    if count < trials:
        entropy += (1 - share) * ((1 - share) / (1 - probability)).log()
    return (-trials * entropy).exp()


def _reach(trials: int, probability: float, depth: float) -> int:
    """Return a count that Bin(trials, probability) exceeds with probability exp(−depth) at most."""
    mean = trials * probability
    count = max(2.0, mean)
    while count < min(trials, _MOST_COUNT) and count * math.log(count / max(mean, 1e-300)) + mean - count < depth:
        count *= 1.05
    return min(trials, math.ceil(count))


def _size(most: list[int], together: int, enough: int) -> int:
    """Return how many combinations there are; if there are more than enough, some number above that."""
    ways = [1]
    for limit in most:
        sums = [*accumulate(ways, initial=0)]
        last = min(len(ways) - 1 + limit, together)
        ways = [sums[min(count + 1, len(ways))] - sums[max(count - limit, 0)] for count in range(last + 1)]
        if sum(ways) > enough:
            break
    return sum(ways)


def listed(summand: Summand, copies: int, log_answer: float, *, most_terms: int = MOST_TERMS) -> Ball:
    """Return a ball whose upper end is at least E[(S)₊], deep enough for one of about exp(log_answer).

    Infinite where the list would be too long.
    """
    values = (*summand.values, arb(0))
    probabilities = (*summand.probabilities, 1 - total(summand.probabilities))
    floats = [max(float(probability), 0.0) for probability in probabilities]
    usual = max(range(len(floats)), key=floats.__getitem__)
    others = [index for index in range(len(floats)) if index != usual and floats[index] > 0]
    if len(others) > _MOST_VALUES:
        return INFINITE
    first = total([probability * value.max(arb(0)) for value, probability in zip(values, probabilities, strict=True)])
    depth = _DROPPED - log_answer + math.log(max(copies * float(first.upper()), 1e-300))
    share = total([probabilities[index] for index in others])
    spend(50 + 100 * len(others))
    together = _reach(copies, float(share), depth)
    most = [min(together, _reach(copies, floats[index], depth)) for index in others]
    # Values so unlikely that a double took them for impossible: (S)₊ ≤ ΣW₊, of which such a copy has its own part, and
    # the others theirs, if there is such a copy.
    lost = arb(0)
    for index, (value, probability) in enumerate(zip(values, probabilities, strict=True)):
        if index != usual and index not in others:
            lost += copies * probability.abs_upper() * (value.max(arb(0)) + copies * first)
    if not others:
        return (values[usual] * copies).max(arb(0)) + lost
    longest = max(most)
    if longest >= min(_MOST_COUNT, most_terms):
        return INFINITE
    spend(longest + together)
    size = _size(most, together, most_terms)
    if size > most_terms:
        return INFINITE
    spend(size + sum(most))
    usual_value, usual_probability = values[usual], probabilities[usual]
    ladders = []
    for index, limit in zip(others, most, strict=True):
        ladder = [arb(1)]
        for count in range(1, limit + 1):
            ladder.append(ladder[-1] * probabilities[index] / (usual_probability * count))
        ladders.append(ladder)
    falling = [usual_probability**copies]
    for count in range(together):
        falling.append(falling[-1] * (copies - count))
    nil = arb(0)

    def summed(position: int, height: Ball, used: int) -> Ball:
        result, step = nil, values[others[position]] - usual_value
        ladder = ladders[position]
        last = position == len(others) - 1
        for count in range(min(most[position], together - used) + 1):
            if last:
                if not height <= 0:
                    result += ladder[count] * falling[used + count] * height.max(nil)
            else:
                result += ladder[count] * summed(position + 1, height, used + count)
            height = height + step
        return result

    rest = nil
    for count, probability in [(together, share), *zip(most, (probabilities[index] for index in others), strict=True)]:
        if count < copies:
            rest += binomial_tail(copies - 1, count, probability)
    return summed(0, usual_value * copies, 0) + copies * first * rest + lost
