"""Divergences summed from their definitions in ball arithmetic: slow, plain and with a proven error.

Every function returns an `arb` ball that contains the true value. Epsilons, orders and probabilities are
taken as the exact values of the doubles given, or as balls where a double is not fine enough. `bits` is the
working precision; a ball that comes out too wide wants more of them.
"""

from __future__ import annotations

import math
from typing import Any, Literal

from flint import arb, arb_poly, ctx, fmpz

Ball = Any
"""A `flint.arb`; python-flint has no type stubs."""

CloneProbability = Literal["clones", "strong"]
"""Probability that another report is a clone: "clones" is e^-ε₀ (Theorem 3.2), "strong" is 2/(e^ε₀+1)."""


def pair_delta(
    reports: int,
    local_epsilon: float | Ball,
    epsilon: float | Ball,
    clone_probability: CloneProbability,
    *,
    bits: int = 300,
) -> Ball:
    """Return δ at ε of the clones pair, by the double sum over all outcomes (c, a); reports up to about 400.

    C ~ Bin(n-1, p), A ~ Bin(C, 1/2), q = e^ε₀/(e^ε₀+1); P is (A, C) with probability q, else (A+1, C); Q
    swaps q and 1-q (arXiv 2012.12803v3, equation PQ). P and Q mirror each other, so both directions agree.
    """
    with ctx.workprec(bits):
        clone, truth = _pair_probabilities(local_epsilon, clone_probability)
        factor = arb(epsilon).exp()
        total = arb(0)
        for clones in range(reports):
            weight = _binomial_mass(reports - 1, clones, clone)
            for zeros in range(clones + 2):
                p, q = _pair_masses(clones, zeros, truth)
                total += weight * _positive(p - factor * q)
        return total


def pair_delta_window(
    reports: int,
    local_epsilon: float | Ball,
    epsilon: float | Ball,
    clone_probability: CloneProbability,
    *,
    deviations: float = 20.0,
    bits: int = 300,
) -> Ball:
    """Return δ at ε of the same pair for many reports, the rare values of C counted in the ball's radius.

    C runs over its mean plus and minus `deviations` standard deviations and a bit (Bernstein: the mass left
    out is at most about 2 exp(-deviations²/2)). Given C = c, P - e^ε Q is positive for a up to some k, and
    its sum needs the number T(c, k) of subsets of c things with at most k members. T is carried from one c
    to the next in exact integers: T(c+1, k) = 2 T(c, k) - binomial(c, k). Needs ε > -ε₀; 0 from ε₀ on.
    """
    with ctx.workprec(bits):
        local_epsilon, epsilon = arb(local_epsilon), arb(epsilon)
        if epsilon >= local_epsilon:
            return arb(0)
        clone, truth = _pair_probabilities(local_epsilon, clone_probability)
        factor = epsilon.exp()
        gain = truth - factor * (1 - truth)  # of P - e^ε Q, per outcome of A = a
        loss = factor * truth - (1 - truth)  # per outcome of A = a - 1
        if not (gain > 0 and loss > 0):
            raise ValueError(f"needs epsilon above -local_epsilon, and the two told apart at {bits} bits")
        trials = reports - 1
        mean = trials * float(clone.mid())
        reach = deviations * math.sqrt(mean * (1 - mean / trials)) + deviations**2 / 3 if trials else 0.0
        first = max(0, math.floor(mean - reach))
        last = min(trials, math.ceil(mean + reach))

        total = arb(0)
        top, binomial, subsets = 0, fmpz(1), fmpz(1)  # k, binomial(c, k), T(c, k)
        for clones in range(first, last + 1):
            if clones > first:
                subsets = 2 * subsets - binomial
                binomial = binomial * clones // (clones - top)
            while gain * (clones - top) - loss * (top + 1) > 0:  # is the outcome a = k + 1 positive too?
                binomial = binomial * (clones - top) // (top + 1)
                top += 1
                subsets += binomial
            part = gain * subsets - loss * (subsets - binomial)
            following = binomial * (clones - top) // (top + 1)
            part += _positive(gain * following - loss * binomial)  # zero, or a tie too close to call
            total += _binomial_mass(trials, clones, clone) * part * arb(2) ** -clones
        missed = _mass_below(trials, first, clone) + _mass_below(trials, trials - last, 1 - clone)
        return total + missed * arb(0.5, 0.5)


def pair_renyi(
    reports: int,
    local_epsilon: float | Ball,
    order: float | Ball,
    clone_probability: CloneProbability,
    *,
    bits: int = 300,
) -> Ball:
    """Return the Rényi divergence of the clones pair at an order α > 0, by the double sum; order 1 is KL."""
    with ctx.workprec(bits):
        clone, truth = _pair_probabilities(local_epsilon, clone_probability)
        order = arb(order)
        total = arb(0)
        for clones in range(reports):
            weight = _binomial_mass(reports - 1, clones, clone)
            for zeros in range(clones + 2):
                p, q = _pair_masses(clones, zeros, truth)
                total += weight * (p * (p / q).log() if order == 1 else p**order * q ** (1 - order))
        return total if order == 1 else total.log() / (order - 1)


def two_rr_delta(
    reports: int, local_epsilon: float | Ball, epsilon: float | Ball, *, bits: int = 300
) -> tuple[Ball, Ball]:
    """Return δ at ε of shuffled 2RR on (0, ..., 0) against (1, 0, ..., 0), and of the other direction."""
    with ctx.workprec(bits):
        lie = 1 / (arb(local_epsilon).exp() + 1)
        factor = arb(epsilon).exp()
        forward, backward = arb(0), arb(0)
        for ones in range(reports + 1):
            others = _binomial_mass(reports - 1, ones, lie)
            others_less = _binomial_mass(reports - 1, ones - 1, lie)
            all_zero = (1 - lie) * others + lie * others_less
            one_one = lie * others + (1 - lie) * others_less
            forward += _positive(all_zero - factor * one_one)
            backward += _positive(one_one - factor * all_zero)
        return forward, backward


def two_rr_worst(reports: int, local_epsilon: float | Ball, epsilon: float | Ball, *, bits: int = 300) -> Ball:
    """Return the largest δ at ε of shuffled 2RR over all datasets: k of the others hold 1, for every k; small n."""
    with ctx.workprec(bits):
        lie = 1 / (arb(local_epsilon).exp() + 1)
        factor, worst = arb(epsilon).exp(), arb(0)
        for high in range(reports):
            others = arb_poly([1 - lie, lie]) ** (reports - 1 - high) * arb_poly([lie, 1 - lie]) ** high
            first, second = (arb_poly([1 - own, own]) * others for own in (lie, 1 - lie))
            pairs = [(first[ones], second[ones]) for ones in range(reports + 1)]
            for one, other in ((0, 1), (1, 0)):
                total = sum((_positive(pair[one] - factor * pair[other]) for pair in pairs), arb(0))
                worst = worst.max(total)
        return worst


def three_rr_delta(reports: int, local_epsilon: float | Ball, epsilon: float | Ball, *, bits: int = 300) -> Ball:
    """Return δ at ε of shuffled 3RR on (0, 2, ..., 2) against (1, 2, ..., 2), over all histograms; small n.

    Renaming the symbols 0 and 1 turns one direction into the other, so both are this number.
    """
    with ctx.workprec(bits):
        lie = 1 / (arb(local_epsilon).exp() + 2)
        truth = 1 - 2 * lie
        factor = arb(epsilon).exp()
        total = arb(0)
        for zeros in range(reports + 1):
            for ones in range(reports + 1 - zeros):
                twos = reports - zeros - ones
                said_zero = _multinomial_mass((zeros - 1, ones, twos), (lie, lie, truth))
                said_one = _multinomial_mass((zeros, ones - 1, twos), (lie, lie, truth))
                said_two = _multinomial_mass((zeros, ones, twos - 1), (lie, lie, truth))
                p = truth * said_zero + lie * said_one + lie * said_two
                q = lie * said_zero + truth * said_one + lie * said_two
                total += _positive(p - factor * q)
        return total


def decomposition_delta(
    reports: int, p: float | Ball, q: float | Ball, epsilon: float | Ball, *, bits: int = 300
) -> Ball:
    """Return δ at ε of the pair of Theorem 4.1 (arXiv 2012.12803v3), over all outcomes; small n.

    (A, B, C, D) ~ Mult(n-1; p, p, p, 1-3p) and Γ ~ Bern(q); the pair is (A+Γ, B, C+1-Γ) against
    (A, B+Γ, C+1-Γ). Swapping the first two places turns one direction into the other.
    """
    with ctx.workprec(bits):
        p, q = arb(p), arb(q)
        probabilities = (p, p, p, 1 - 3 * p)
        if p < 0 or 1 - 3 * p < 0 or q < 0 or q > 1:
            raise ValueError("needs 0 <= p <= 1/3 and 0 <= q <= 1")
        factor = arb(epsilon).exp()
        total = arb(0)
        for first in range(reports + 1):
            for second in range(reports + 1 - first):
                for third in range(reports + 1 - first - second):
                    rest = reports - first - second - third
                    in_first = _multinomial_mass((first - 1, second, third, rest), probabilities)
                    in_second = _multinomial_mass((first, second - 1, third, rest), probabilities)
                    in_third = _multinomial_mass((first, second, third - 1, rest), probabilities)
                    left = q * in_first + (1 - q) * in_third
                    right = q * in_second + (1 - q) * in_third
                    total += _positive(left - factor * right)
        return total


def _pair_probabilities(local_epsilon: float | Ball, clone_probability: CloneProbability) -> tuple[Ball, Ball]:
    """Return the probability p of a clone and the probability q that the victim tells the truth."""
    ratio = arb(local_epsilon).exp()
    if clone_probability == "clones":
        return 1 / ratio, ratio / (ratio + 1)
    if clone_probability == "strong":
        return 2 / (ratio + 1), ratio / (ratio + 1)
    raise ValueError(f'clone_probability is "clones" or "strong"; got {clone_probability!r}')


def _pair_masses(clones: int, zeros: int, truth: Ball) -> tuple[Ball, Ball]:
    """Return P(a | c) and Q(a | c) of the clones pair."""
    here = arb(_binomial(clones, zeros)) / arb(2) ** clones
    below = arb(_binomial(clones, zeros - 1)) / arb(2) ** clones
    return truth * here + (1 - truth) * below, (1 - truth) * here + truth * below


def _binomial(trials: int, successes: int) -> Any:
    """Return the binomial coefficient as an exact integer, zero outside its range."""
    return fmpz.bin_uiui(trials, successes) if 0 <= successes <= trials else fmpz(0)


def _binomial_mass(trials: int, successes: int, probability: Ball) -> Ball:
    """Return Pr(Bin(trials, probability) = successes)."""
    if not 0 <= successes <= trials:
        return arb(0)
    return arb.bin_uiui(trials, successes) * probability**successes * (1 - probability) ** (trials - successes)


def _multinomial_mass(counts: tuple[int, ...], probabilities: tuple[Ball, ...]) -> Ball:
    """Return the multinomial probability of the counts, zero if one of them is negative."""
    if min(counts) < 0:
        return arb(0)
    mass = arb(1)
    seen = 0
    for count, probability in zip(counts, probabilities, strict=True):
        seen += count
        mass *= fmpz.bin_uiui(seen, count) * probability**count
    return mass


def _mass_below(trials: int, first: int, probability: Ball) -> Ball:
    """Return an upper bound on Pr(Bin(trials, probability) < first), for first below the mean.

    Going down, each mass is at most `shrink` times the one before, so a geometric series bounds the sum.
    """
    if first == 0:
        return arb(0)
    start = first - 1
    shrink = start * (1 - probability) / ((trials - start + 1) * probability)
    if not shrink < 1:
        raise ValueError("the window is too narrow to bound what it leaves out")
    return _binomial_mass(trials, start, probability) / (1 - shrink)


def _positive(value: Ball) -> Ball:
    """Return the positive part of a ball."""
    return value.max(arb(0))
