"""Several rounds, by brute force: all outcomes of all rounds together, or a plain convolution between two pairs.

A `Distribution` lists the outcomes of one round by their probabilities in the two worlds. With balls (`flint.arb`),
everything computed from it contains the true value.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
from flint import arb, ctx, fmpz
from numpy.typing import NDArray
from scipy.special import gammaln

from tests.oracles.exact import Ball, CloneProbability, _binomial_mass, _pair_masses, _pair_probabilities, _positive

Distribution = list[tuple[Ball, Ball]]
"""P and Q of every outcome; numbers of any kind, balls as a rule."""
Array = NDArray[np.float64]

BITS = 200


# Exact, for few outcomes


def clone_distribution(
    reports: int, local_epsilon: float, clone_probability: CloneProbability, *, bits: int = BITS
) -> Distribution:
    """Return the clones pair, its outcomes (a, c) with the same a/(c + 1), hence the same ratio, put together."""
    with ctx.workprec(bits):
        clone, truth = _pair_probabilities(local_epsilon, clone_probability)
        found: dict[Fraction, tuple[Ball, Ball]] = {}
        for clones in range(reports):
            weight = _binomial_mass(reports - 1, clones, clone)
            for zeros in range(clones + 2):
                p, q = _pair_masses(clones, zeros, truth)
                key = Fraction(zeros, clones + 1)
                before = found.get(key, (arb(0), arb(0)))
                found[key] = before[0] + weight * p, before[1] + weight * q
        return list(found.values())


def response_distribution(epsilon: float, delta: float = 0.0, *, bits: int = BITS) -> Distribution:
    """Return the worst pair that is (ε, δ)-DP: randomized response, and with probability δ the truth."""
    with ctx.workprec(bits):
        ratio = arb(epsilon).exp()
        high, low = (1 - arb(delta)) * ratio / (1 + ratio), (1 - arb(delta)) / (1 + ratio)
        told: Distribution = [(arb(delta), arb(0)), (arb(0), arb(delta))] if delta else []
        return [(high, low), (low, high), *told]


def repeated(distribution: Distribution, times: int, *, bits: int = BITS) -> Distribution:
    """Return the distribution of independent rounds, outcomes that differ only in the order of rounds together."""
    with ctx.workprec(bits):
        # What is reached by the first outcomes of the list in so many rounds, divided by the number of orders.
        partial: dict[int, Distribution] = {0: [(arb(1), arb(1))]}
        for p, q in distribution:
            powers = [
                (p**count / math.factorial(count), q**count / math.factorial(count)) for count in range(times + 1)
            ]
            grown: dict[int, Distribution] = {}
            for used, outcomes in partial.items():
                for count in range(times - used + 1):
                    more_p, more_q = powers[count]
                    grown.setdefault(used + count, []).extend((one * more_p, two * more_q) for one, two in outcomes)
            partial = grown
        return [(p * math.factorial(times), q * math.factorial(times)) for p, q in partial[times]]


def joined(distributions: Sequence[Distribution], *, bits: int = BITS) -> Distribution:
    """Return the distribution of one round of each, independent."""
    with ctx.workprec(bits):
        result: Distribution = [(arb(1), arb(1))]
        for distribution in distributions:
            result = [(p * more_p, q * more_q) for (p, q), (more_p, more_q) in product(result, distribution)]
        return result


def distribution_delta(distribution: Distribution, epsilon: float | Ball, *, bits: int = BITS) -> Ball:
    """Return the larger of the hockey-stick divergences of both directions at ε."""
    with ctx.workprec(bits):
        factor = arb(epsilon).exp()
        forward, backward = arb(0), arb(0)
        for p, q in distribution:
            forward += _positive(p - factor * q)
            backward += _positive(q - factor * p)
        return forward.max(backward)


def distribution_renyi(distribution: Distribution, order: float, *, bits: int = BITS) -> Ball:
    """Return the larger of the Rényi divergences of both directions, for distributions with no impossible outcome."""
    with ctx.workprec(bits):
        power = arb(order)
        forward, backward = arb(0), arb(0)
        for p, q in distribution:
            forward += p**power * q ** (1 - power)
            backward += q**power * p ** (1 - power)
        return forward.max(backward).log() / (power - 1)


def response_delta(rounds: int, epsilon: float, delta: float, at: float | Ball, *, bits: int = 300) -> Ball:
    """Return δ of the optimal composition of (ε, δ)-DP rounds, one term for each number of lies; many rounds."""
    with ctx.workprec(bits):
        ratio, factor = arb(epsilon).exp(), arb(at).exp()
        truth, lie = ratio / (1 + ratio), 1 / (1 + ratio)
        total, choices = arb(0), fmpz(1)
        for lies in range(rounds + 1):
            gain = truth ** (rounds - lies) * lie**lies - factor * truth**lies * lie ** (rounds - lies)
            total += choices * _positive(gain)
            choices = choices * (rounds - lies) // (lies + 1)
        return 1 - (1 - arb(delta)) ** rounds * (1 - total)


def closed_form_epsilon(rounds: Sequence[tuple[float, float]], delta: float) -> float:
    """Return the ε of Kairouz, Oh and Viswanath's closed form, for rounds (ε, δ), at the total δ; infinity if none.

    Theorem 3.5 of arXiv 1311.0776: 1 − Π(1 − δᵢ)·(1 − δ̃) = δ.
    """
    left = 1 - (1 - delta) / math.prod(1 - lost for _, lost in rounds)
    plain = math.fsum(epsilon for epsilon, _ in rounds)
    if left < 0:
        return math.inf
    if left == 0:
        return plain
    square = math.fsum(epsilon**2 for epsilon, _ in rounds)
    mean = math.fsum(epsilon * math.tanh(epsilon / 2) for epsilon, _ in rounds)
    logarithm = min(math.log(math.e + math.sqrt(square) / left), math.log(1 / left))
    return min(plain, mean + math.sqrt(2 * square * logarithm))


# Medium sizes: a lattice pair on either side, and a plain convolution


@dataclass(frozen=True)
class Lattice:
    """Masses at the losses (first + i)·step, in the first world."""

    first: int
    step: float
    masses: Array

    def power(self, times: int) -> Lattice:
        """Return the convolution power, by an FFT without any tilt: absolute errors of about 1e-14 · times."""
        spread = math.sqrt(times * self._variance())
        middle = times * self._mean()
        reach = 20 * spread / self.step + len(self.masses)
        size = 1 << min((len(self.masses) * times).bit_length(), (2 * math.ceil(reach)).bit_length())
        centre = round(middle / self.step)
        folded = np.zeros(size)
        np.add.at(folded, (np.arange(len(self.masses)) + self.first) % size, self.masses)
        whole = np.fft.irfft(np.fft.rfft(folded) ** times, size)
        first = centre - size // 2
        return Lattice(first, self.step, np.maximum(np.roll(whole, -(first % size)), 0.0))

    def convolved(self, other: Lattice) -> Lattice:
        """Return the distribution of the sum with an independent loss on the same lattice."""
        size = len(self.masses) + len(other.masses) - 1
        length = 1 << (size - 1).bit_length()
        whole = np.fft.irfft(np.fft.rfft(self.masses, length) * np.fft.rfft(other.masses, length), length)[:size]
        return Lattice(self.first + other.first, self.step, np.maximum(whole, 0.0))

    def delta(self, epsilon: float) -> float:
        """Return the sum of (1 − e^(ε − loss))₊."""
        losses = self._losses()
        above = losses > epsilon
        return float(np.sum(-np.expm1(epsilon - losses[above]) * self.masses[above]))

    def epsilon(self, delta: float) -> float:
        """Return the ε at which delta is reached, by bisection."""
        low, high = 0.0, max(0.0, float(self._losses()[-1]))
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if self.delta(middle) > delta else (low, middle)
        return high

    def _losses(self) -> Array:
        losses: Array = np.arange(self.first, self.first + len(self.masses), dtype=np.float64) * self.step
        return losses

    def _mean(self) -> float:
        return float(self._losses() @ self.masses)

    def _variance(self) -> float:
        return float((self._losses() - self._mean()) ** 2 @ self.masses)


def float_clone_distribution(
    reports: int, local_epsilon: float, clone_probability: CloneProbability, *, deviations: float = 11.0
) -> tuple[Array, Array]:
    """Return P and Q of the clones pair in floats, without what is so many standard deviations away; n to about 1e4."""
    ratio = math.exp(local_epsilon)
    probability = 1 / ratio if clone_probability == "clones" else 2 / (ratio + 1)
    trials = reports - 1
    reach = deviations * math.sqrt(trials * probability * (1 - probability)) + deviations**2 / 3
    low = max(0, math.floor(trials * probability - reach))
    high = min(trials, math.ceil(trials * probability + reach))
    clones = np.arange(low, high + 1, dtype=np.float64)
    weights = (
        _log_choose(float(trials), clones)
        + clones * math.log(probability)
        + (trials - clones) * math.log1p(-probability)
    )
    width = math.ceil(deviations * math.sqrt(high / 4 + 1) + deviations**2 / 3)
    c, offset = np.meshgrid(clones, np.arange(-width, width + 1, dtype=np.float64), indexing="ij")
    m = c + 1
    zeros = np.floor(m / 2) + offset
    inside = (zeros >= 0) & (zeros <= m)
    m, zeros = m[inside], zeros[inside]
    base = np.exp(np.broadcast_to(weights[:, None], c.shape)[inside] + _log_choose(m, zeros) - m * math.log(2.0))
    tilt = math.tanh(local_epsilon / 2) * (1 - 2 * zeros / m)
    return base * (1 + tilt), base * (1 - tilt)


def upper_lattice(p: Array, q: Array, step: float) -> Lattice:
    """Return a pair on the lattice that dominates (P, Q): an outcome is split between the two losses next to it.

    Both of its probabilities are kept: whoever sees which half it is knows more.
    """
    losses = np.log(p / q)
    below = np.floor(losses / step).astype(np.int64)
    low, high = np.exp(-below * step), np.exp(-(below + 1) * step)
    share = np.clip((low - q / p) / (low - high), 0.0, 1.0)
    first = int(below.min())
    masses = np.zeros(int(below.max()) + 2 - first)
    np.add.at(masses, below - first, p * (1 - share))
    np.add.at(masses, below + 1 - first, p * share)
    return Lattice(first, step, masses)


def lower_lattice(p: Array, q: Array, step: float) -> Lattice:
    """Return a pair on the lattice that (P, Q) dominates: neighbouring outcomes are mixed up.

    The outcomes are swept from the largest loss down, and put into one bag until the bag's likelihood ratio is that of
    a lattice point. The outcome that makes it so is split. What is left at the end goes to a lattice point below it.
    """
    order = np.argsort(q / p)
    p, q = p[order], q[order]
    losses = np.log(p / q)
    sum_p, sum_q = np.concatenate([[0.0], np.cumsum(p)]), np.concatenate([[0.0], np.cumsum(q)])
    found: dict[int, float] = {}
    start, start_p, start_q = 0, 0.0, 0.0  # the outcome that the bag begins in, and what is gone before it
    while start < len(p):
        point = math.ceil(losses[start] / step - 1e-12) - 1
        factor = math.exp(point * step)
        level = start_p - factor * start_q  # P − factor·Q of what is gone: reached again where the bag is full
        low = start + int(np.searchsorted(-losses[start:], -point * step))  # from here on, P − factor·Q falls
        if low == len(p) or sum_p[-1] - factor * sum_q[-1] > level:
            break
        last = bisect_left(range(low, len(p)), -level, key=lambda i: factor * sum_q[i + 1] - sum_p[i + 1]) + low
        before = sum_p[last] - factor * sum_q[last] if last > start else level
        share = min(1.0, max(0.0, float((before - level) / (factor * q[last] - p[last]))))
        end_p, end_q = float(sum_p[last] + share * p[last]), float(sum_q[last] + share * q[last])
        found[point] = found.get(point, 0.0) + max(0.0, end_p - start_p)
        start, start_p, start_q = last, end_p, end_q
        if share == 1.0:
            start += 1
    rest = float(sum_p[-1]) - start_p
    if rest > 0:
        point = math.floor(losses[-1] / step)
        found[point] = found.get(point, 0.0) + rest
    first = min(found)
    masses = np.zeros(max(found) + 1 - first)
    for point, mass in found.items():
        masses[point - first] = mass
    return Lattice(first, step, masses)


def reference_bracket(
    rounds: Sequence[tuple[tuple[int, float, CloneProbability], int]], delta: float, *, step: float
) -> tuple[float, float]:
    """Return ε(δ) of the composed clones pairs, from below and from above, in floats; δ from about 1e-9 on.

    A round is ((reports, local ε, which clones), times). The mass left out of the windows, and rounding, are of the
    order of 1e-13 times the number of rounds, and are not counted.
    """
    ends = []
    makers: tuple[Callable[[Array, Array, float], Lattice], ...] = (lower_lattice, upper_lattice)
    for make in makers:
        total: Lattice | None = None
        for (reports, local_epsilon, clone_probability), times in rounds:
            part = make(*float_clone_distribution(reports, local_epsilon, clone_probability), step).power(times)
            total = part if total is None else total.convolved(part)
        ends.append(total.epsilon(delta) if total is not None else 0.0)
    return ends[0], ends[1]


def _log_choose(trials: Any, successes: Array) -> Array:
    result: Array = gammaln(trials + 1) - gammaln(successes + 1) - gammaln(trials - successes + 1)
    return result
