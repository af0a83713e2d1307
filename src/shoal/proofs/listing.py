"""E[(S)₊] of a sum of n copies of W in balls, where W has few values: a sum over counts of values.

`listed`: one value of W is the most likely. All combinations of the counts of the others are listed, as far as they can
matter; every term is positive, and what is beyond the list is bounded (docs/theory/numerics.md, 2.5).

`counted`: W has one value above zero and one below. If t copies are not 0, a binomial number A of them is the upper
value, and S = high·A + low·(t − A). From one t to the next, E[(S)₊] takes a few products (docs/theory/certificates.md,
section 2). It proves the printed ε itself, for many copies as well.
"""

import math
from itertools import accumulate

from flint import arb

from shoal.proofs.balls import INFINITE, Ball, Summand, total
from shoal.proofs.work import spend

# What is beyond the list is below exp(−32) of the answer: a longer list takes longer, and lowers the bound.
_DROPPED = 32.0
MOST_TERMS = 400_000
"""The longest list, which takes about a second."""
_MOST_COUNT = 100_000  # the largest count of one value
_MOST_VALUES = 8  # with more values every list is too long
_LEFT_OUT = 40.0  # numbers of copies that are left out add less than exp(−40) of the answer
_NEGLIGIBLE = 1e-70  # the rest of a binomial tail below this part of it is bounded by a geometric series
_PER_NUMBER = 4  # microseconds per number of copies (measured)


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
    """Return at least E[(S)₊], deep enough for one of about exp(log_answer); infinity where a list is too long."""
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
    usual_value = values[usual]
    usual_probability = probabilities[usual]
    # (p/p_usual)^k/k! of each other value, and n!/(n − k)!·p_usual^n: products of these are the multinomial law.
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
        result = nil
        step = values[others[position]] - usual_value
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

    # (S)₊ ≤ ΣW₊: combinations beyond the list cost Chernoff's bound of each count.
    rest = nil
    for count, probability in [(together, share), *zip(most, (probabilities[index] for index in others), strict=True)]:
        if count < copies:
            rest += binomial_tail(copies - 1, count, probability)
    return summed(0, usual_value * copies, 0) + copies * first * rest + lost


def _likelihood(trials: int, count: int, probability: Ball) -> Ball:
    """Return Pr(Bin(trials, probability) = count)."""
    ways = arb(trials + 1).lgamma() - arb(count + 1).lgamma() - arb(trials - count + 1).lgamma()
    return (ways + count * probability.log() + (trials - count) * (1 - probability).log()).exp()


def _tail(trials: int, count: int, probability: Ball) -> tuple[Ball, Ball]:
    """Return Pr(Bin(trials, probability) ≥ count) for a count that is not far below the mean, and Pr(… = count)."""
    first = term = _likelihood(trials, count, probability)
    odds = probability / (1 - probability)
    tail = arb(0)
    for index in range(count, trials + 1):
        tail += term
        ratio = odds * (trials - index) / (index + 1)
        term *= ratio
        spend(2)
        if ratio < 1:
            rest = term / (1 - ratio)  # ratios fall from here on
            if rest <= _NEGLIGIBLE * tail:
                return tail.union(tail + rest), first
    return tail, first


def counted(summand: Summand, copies: int, log_answer: float, *, most: int) -> Ball:
    """Return a ball whose upper end is at least E[(S)₊], deep enough for one of about exp(log_answer).

    Infinite where W has other values, a number is beyond doubles, or there are more than `most` numbers of copies.
    """
    if len(summand.values) != 2:
        return INFINITE
    (low, below), (high, above) = sorted(
        zip(summand.values, summand.probabilities, strict=True), key=lambda e: float(e[0])
    )
    active = below + above
    if not (low < 0 and high > 0 and below > 0 and above > 0 and active < 1):
        return INFINITE
    share = above / active
    first = copies * above * high
    mean = float(active) * copies
    depth = _LEFT_OUT - log_answer + math.log(max(float(first.upper()), 1e-300))
    reach = math.sqrt(2 * depth * mean * float(1 - active)) + depth + 2  # by Bernstein's inequality
    if not math.isfinite(mean + reach):  # a value, or the answer that was expected, is no double
        return INFINITE
    start = max(1, math.floor(mean - reach))
    stop = min(copies, math.ceil(mean + reach))
    if not 0 < stop - start + 1 <= most:
        return INFINITE
    spend(_PER_NUMBER * (stop - start + 1))
    wide = high - low
    other = 1 - share
    fewest = max(0, math.floor(start * float(-low / wide)) - 1)
    height = high * fewest + low * (start - fewest)
    while not height <= 0:
        spend(1)
        fewest -= 1
        height = height - wide
    while height <= 0:
        spend(1)
        fewest += 1
        height = height + wide
    tail, here = _tail(start - 1, fewest - 1, share)
    drift = share * high + other * low
    drop = -low * other
    odds = share / other
    weight = _likelihood(copies, start, active)
    more = active / (1 - active)
    answer = arb(0)
    for t in range(start, stop + 1):
        part = t * (tail * drift + drop * here)  # (2.2)
        if not height > 0:  # S may be negative at the least count: its part is taken out again
            if not height + wide > 0:
                return INFINITE
            part += abs(height) * here * share * t / fewest
        answer += weight * part
        weight = weight * (copies - t) * more / (t + 1)  # Pr(T = t + 1) from Pr(T = t)
        # One copy more: first with the same count, then with as many as make S positive.
        each = here * other / (t - fewest + 1)
        tail = tail + each * (fewest - 1)
        here = each * t
        height += low
        while height <= 0:
            spend(1)
            tail -= here
            here = here * (t - fewest + 1) * odds / fewest
            fewest += 1
            height = height + wide
    # (S)₊ ≤ high·A: numbers of copies outside of the interval cost Chernoff's bound.
    return answer + first * _outside(copies, start, stop, active)


def _outside(copies: int, start: int, stop: int, active: Ball) -> Ball:
    """Return a bound of Pr(1 + Bin(copies − 1, active) is below `start` or above `stop`)."""
    outside = arb(0)
    if stop < copies:
        outside += binomial_tail(copies - 1, stop, active)
    if start > 1:
        outside += binomial_tail(copies - 1, copies - start + 1, 1 - active)
    return outside
