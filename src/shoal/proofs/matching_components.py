"""How many components a random matching of blocks has: how far split and mix is from telling the sum alone.

n people split a number into m messages each, m − 1 of them uniform modulo q, and all are shuffled. With C the number of
components of a uniformly random matching of n blocks of m with n blocks of m, what is seen is within ½·√(e − 1) of the
uniform distribution with the same sum, in total variation, e = E q^(C − 1) (docs/theory/several-messages.md, Theorem
M). The excess e − 1 is computed here: exactly for few people, from above for any number.
"""

import math
from fractions import Fraction
from functools import lru_cache

from flint import arb

from shoal.proofs.balls import Ball, above, precision

__all__ = ["exact_excess", "excess_above"]

_EXACT = 100
"""For so many people or fewer, the excess is that of the series."""
_STARTS = (40, 120, 300)
"""From which number of people on the excess is below one number, which is tried one after the other."""
_PRECISION = 128


def exact_excess(people: int, messages: int, modulus: int) -> Fraction:
    """Return e − 1, from the n-th coefficient of (Σ A_a·z^a)^q, A_a = (ma)!/(a!)², which is q·e·A_n.

    Examples
    --------
    >>> exact_excess(2, 2, 2), exact_excess(3, 3, 3)
    (Fraction(1, 3), Fraction(31, 140))
    """
    weights = [math.factorial(messages * a) // math.factorial(a) ** 2 for a in range(people + 1)]
    power = [1]  # all coefficients are integers
    for n in range(1, people + 1):  # n·P_n = Σ (kq − n + k)·A_k·P_(n−k), from the derivative of a power
        terms = ((k * modulus - n + k) * weights[k] * power[n - k] for k in range(1, n + 1))
        power.append(sum(terms) // n)
    return Fraction(power[people], modulus * weights[people]) - 1


@lru_cache(maxsize=4096)
def excess_above(people: int, messages: int, modulus: int) -> float:
    """Return an upper bound of e − 1 for n people; infinite where nothing is proved.

    Up to 100 people it is the series. Else, with w_a = C(n, a)²/C(mn, ma), e_n − 1 ≤ (q − 1)/2·Σ w_a·e_a, of which the
    middle is at most n·w_s(1 + β), if e_a ≤ 1 + β from a = s on; all in ball arithmetic.

    Examples
    --------
    >>> excess_above(10**5, 9, 1 << 40)
    1.0299...e-26
    """
    if people <= _EXACT:
        return _rounded_up(exact_excess(people, messages, modulus))
    return min((_from(start, people, messages, modulus) for start in _STARTS if people > 2 * start), default=math.inf)


def _from(start: int, people: int, messages: int, modulus: int) -> float:
    if messages < 3:
        return math.inf
    with precision(_PRECISION):
        _, most = _first(start, messages, modulus)
        # The bound falls with n: if it is at most β for the first n, then so is every later one, by induction.
        if not _bound(start, 2 * start + 1, messages, modulus) <= most:
            return math.inf
        return above(_bound(start, people, messages, modulus))


def _weights(people: int, most: int, messages: int) -> list[Ball]:
    """Return w_a = C(n, a)²/C(mn, ma) for a from 0 up to a number, each from the one before."""
    weights = [arb(1)]
    for a in range(most):
        ratio = (arb(people - a) / (a + 1)) ** 2
        for j in range(messages):
            ratio = ratio * (messages * (a + 1) - j) / (messages * (people - a) - j)
        weights.append(weights[-1] * ratio)
    return weights


@lru_cache(maxsize=64)
def _first(start: int, messages: int, modulus: int) -> tuple[list[Ball], Ball]:
    """Return bounds of e_a for a up to 2s, by the recursion, and β: the largest excess from s on."""
    with precision(_PRECISION):
        half, known = arb(modulus - 1) / 2, [arb(1), arb(1)]
        every = [arb.fac_ui(messages * a) / arb.fac_ui(a) ** 2 for a in range(2 * start + 1)]  # A_a
        for n in range(2, 2 * start + 1):
            total = sum((every[a] * every[n - a] * known[a] for a in range(1, n)), arb(0))
            known.append(1 + half * total / every[n])
        most = arb(0)
        for value in known[start:]:
            most = most.max(value - 1)
        return known, most.upper()


def _bound(start: int, people: int, messages: int, modulus: int) -> Ball:
    known, most = _first(start, messages, modulus)
    weights = _weights(people, start, messages)
    ends = sum((weights[a] * (known[a] + 1 + most) for a in range(1, start)), arb(0))
    middle = people * weights[start] * (1 + most)
    return arb(modulus - 1) / 2 * (ends + middle)


def _rounded_up(value: Fraction) -> float:
    try:
        nearest = float(value)
    except OverflowError:
        return math.inf
    return nearest if Fraction(nearest) >= value else math.nextafter(nearest, math.inf)
