"""E[(S)₊] of a sum of n copies of a W with one value above zero and one below, in balls: a sum over how many are not 0.

If t copies are not 0, a binomial number A of them is the upper value, and S = high·A + low·(t − A). With k the least A
for which this may be positive, G = Pr(Bin(t − 1, q) ≥ k − 1) and f = Pr(Bin(t − 1, q) = k − 1), the mean of (S)₊ is
t·(G·(q·high + (1 − q)·low) − low·(1 − q)·f). From one t to the next G and f take a few products
(docs/theory/certificates.md, 2).
"""

import math

from flint import arb

from shoal.proofs.balls import INFINITE, Ball, Summand
from shoal.proofs.listing import binomial_tail
from shoal.proofs.work import spend

__all__ = ["counted"]

_DROPPED = 40.0
"""Numbers of copies that are left out add less than exp(−40) of the answer."""
_NEGLIGIBLE = 1e-70
_WORK = 4
"""Microseconds per number of copies."""


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

    Infinite where W has other values, a number is beyond doubles, or there are more than `most` numbers of copies to
    look at.
    """
    if len(summand.values) != 2:
        return INFINITE
    (low, below), (high, above) = sorted(
        zip(summand.values, summand.probabilities, strict=True), key=lambda e: float(e[0])
    )
    active = below + above
    if not (low < 0 and high > 0 and below > 0 and above > 0 and active < 1):
        return INFINITE
    share, first = above / active, copies * above * high
    mean = float(active) * copies
    depth = _DROPPED - log_answer + math.log(max(float(first.upper()), 1e-300))
    reach = math.sqrt(2 * depth * mean * float(1 - active)) + depth + 2  # by Bernstein's inequality
    if not math.isfinite(mean + reach):  # a value, or the answer that was expected, is no double
        return INFINITE
    start, stop = max(1, math.floor(mean - reach)), min(copies, math.ceil(mean + reach))
    if not 0 < stop - start + 1 <= most:
        return INFINITE
    spend(_WORK * (stop - start + 1))
    wide, other = high - low, 1 - share
    fewest = max(0, math.floor(start * float(-low / wide)) - 1)
    height = high * fewest + low * (start - fewest)
    while not height <= 0:
        spend(1)
        fewest, height = fewest - 1, height - wide
    while height <= 0:
        spend(1)
        fewest, height = fewest + 1, height + wide
    tail, here = _tail(start - 1, fewest - 1, share)
    drift, drop, odds = share * high + other * low, -low * other, share / other
    weight, more = _likelihood(copies, start, active), active / (1 - active)
    answer = arb(0)
    for t in range(start, stop + 1):
        part = t * (tail * drift + drop * here)
        if not height > 0:  # S may be negative at the least count: its part is taken out again
            if not height + wide > 0:
                return INFINITE
            part += abs(height) * here * share * t / fewest
        answer += weight * part
        weight = weight * (copies - t) * more / (t + 1)
        # One copy more: first with the same count, then with as many as make S positive.
        each = here * other / (t - fewest + 1)
        tail, here = tail + each * (fewest - 1), each * t
        height += low
        while height <= 0:
            spend(1)
            tail -= here
            here = here * (t - fewest + 1) * odds / fewest
            fewest, height = fewest + 1, height + wide
    outside = arb(0)
    if stop < copies:
        outside += binomial_tail(copies - 1, stop, active)
    if start > 1:
        outside += binomial_tail(copies - 1, copies - start + 1, 1 - active)
    return answer + first * outside
