"""Formulas that need no numerics, each with its range of validity (docs/theory/closed-forms.md)."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shoal.checks import SMALLEST_DELTA
from shoal.errors import NoPairError, RangeError
from shoal.pairs import ClonePair, Family
from shoal.randomizers import Decomposition

__all__ = ["FormulaProfile", "decomposition_form", "sharp_form", "theorem_3_1"]

_UP = 1 + 2.0**-46
"""Covers the rounding of a dozen operations."""


@dataclass(frozen=True)
class FormulaProfile:
    """A formula ε(δ) that falls with δ and holds from `smallest_delta` on.

    Attributes
    ----------
    formula : callable
        ε as a function of δ.
    smallest_delta : float
        The least δ for which it is proven.
    local_epsilon : float
        ε₀, which always holds.
    refusal : callable
        What to tell whoever asks for a smaller δ.
    numerical : str
        The name of the bound that has a pair.
    """

    formula: Callable[[float], float]
    smallest_delta: float
    local_epsilon: float
    refusal: Callable[[float], str]
    numerical: str

    def epsilon(self, delta: float) -> float:
        """Return the formula's ε, or ε₀ where that is smaller."""
        if delta < SMALLEST_DELTA or self.local_epsilon == 0:
            return self.local_epsilon
        if delta < self.smallest_delta:
            raise RangeError(self.refusal(delta))
        return min(self.local_epsilon, self.formula(delta))

    def delta(self, epsilon: float) -> float:
        """Return the least δ at which the formula gives at most ε; one, if there is none."""
        if epsilon >= self.local_epsilon:
            return 0.0
        least = max(self.smallest_delta, SMALLEST_DELTA)
        if least >= 0.5:
            raise RangeError(self.refusal(0.5))
        # Search over x = −log δ from the other end: δ = exp(x − limit) with x in [0, limit].
        limit = -math.log(least)
        if self.formula(least) <= epsilon:
            return least
        largest = 1 - 2.0**-53
        if self.formula(largest) > epsilon:
            return 1.0
        low, high = 0.0, limit
        while high - low > 1e-13 * limit:
            middle = 0.5 * (low + high)
            low, high = (
                (low, middle) if self.formula(min(largest, math.exp(middle - limit))) <= epsilon else (middle, high)
            )
        return min(1.0, math.exp(high - limit) * (1 + 1e-12))

    def bracket(self, delta: float) -> tuple[float, float]:
        """Refuse: a formula has no pair."""
        raise self._no_pair("an exact value to bracket")

    def renyi(self, orders: NDArray[np.float64]) -> NDArray[np.float64]:
        """Refuse: a formula has no pair."""
        raise self._no_pair("a Rényi divergence")

    def _no_pair(self, what: str) -> NoPairError:
        return NoPairError(f'a closed form has no pair, and hence not {what}; use bound="{self.numerical}"')


def theorem_3_1(*, reports: int, local_epsilon: float) -> FormulaProfile:
    """Return ε = ln(1 + (E − 1)/(E + 1)·(8·√(E·ln(4/δ)/n) + 8E/n)), E = e^ε₀, for ε₀ ≤ ln(n/(16·ln(4/δ))).

    Theorem 3.1, arXiv 2012.12803v3; the condition is the one its proof uses.
    """
    ratio = math.exp(min(local_epsilon, 700.0)) / reports
    half = math.tanh(local_epsilon / 2)

    def formula(delta: float) -> float:
        return math.log1p(half * (8 * math.sqrt(ratio * math.log(4 / delta)) + 8 * ratio)) * _UP

    def refusal(delta: float) -> str:
        log = math.log(4 / delta)
        return _refusal(
            "clones-closed-form",
            f"reports={reports}, delta={delta:g}",
            local_epsilon,
            most=math.log(reports / (16 * log)),
            fewest=16 * log * math.exp(min(local_epsilon, 700.0)),
            numerical="clones",
        )

    return FormulaProfile(formula, _smallest_delta(1 / (16 * ratio), 4), local_epsilon, refusal, "clones")


def sharp_form(family: Family, *, reports: int, local_epsilon: float) -> FormulaProfile:
    """Return the sharpest closed form for a clones pair.

    With l = ln(2/δ), m = p(n − 1), C₀ = m − √(2ml) > 2l, t = √(C₀l/2) and e′ = (C₀/2 + t + 1)/(C₀/2 − t): ε =
    ln((e^ε₀·e′ + 1)/(e^ε₀ + e′)). Theorem C, docs/theory/closed-forms.md.
    """
    mean = ClonePair(reports, local_epsilon, family).clone_probability * (reports - 1) * (1 - 2.0**-50)
    needed = 3 + math.sqrt(5)  # C₀ > 2l means m > (3 + √5)·l
    small = math.exp(-local_epsilon)

    def formula(delta: float) -> float:
        log = math.log(2 / delta)
        clones = mean - math.sqrt(2 * mean * log)
        turn = math.sqrt(clones * log / 2)
        room = clones / 2 - turn
        if room <= 1e-9 * clones:
            return math.inf
        excess = (2 * turn + 1) / room  # e′ − 1
        loss = -math.expm1(-local_epsilon)
        rounding = 1 + 2.0**-46 * (1 + clones / room)
        return math.log1p(loss * excess / (1 + small * (1 + excess))) * rounding

    def refusal(delta: float) -> str:
        clones = needed * math.log(2 / delta)
        probability = clones / max(reports - 1, 1)
        largest = -math.log(probability) if family == "clones" else math.log(max(2 / probability - 1, 0.5))
        return _refusal(
            f"{family}-sharp-form",
            f"reports={reports}, delta={delta:g}",
            local_epsilon,
            most=largest,
            fewest=clones / max(ClonePair(2, local_epsilon, family).clone_probability, 1e-300) + 2,
            numerical=family,
        )

    return FormulaProfile(formula, _smallest_delta(mean / needed, 2), local_epsilon, refusal, family)


def decomposition_form(randomizer: Decomposition, *, reports: int) -> FormulaProfile:
    """Return ε = ln(1 + q·(4·√(2·ln(4/δ)/(pn)) + 4/(pn))), which holds with q·δ, for p ≥ 8·ln(4/δ)/n.

    Theorem 4.1, arXiv 2012.12803v3, and its corollary for k-ary randomized response, whose printed condition is
    wrong: the one on p is tested itself (docs/theory/errata.md).
    """
    own, local_epsilon = randomizer.own_probability, randomizer.local_epsilon
    mean = randomizer.blanket_probability * reports * (1 - 2.0**-50)

    def formula(delta: float) -> float:
        log = math.log(4) - math.log(min(delta / own, 1.0))
        return math.log1p(own * (4 * math.sqrt(2 * log / mean) + 4 / mean)) * _UP

    def refusal(delta: float) -> str:
        log = math.log(4 * own / delta)
        fewest = math.ceil(8 * log / randomizer.blanket_probability)
        return (
            f"decomposition-closed-form needs blanket_probability >= {8 * log / reports:.6g} at reports={reports}, "
            f"delta={delta:g}; got {randomizer.blanket_probability:.6g}. "
            f'Use bound="decomposition" or "strong-clones", or at least {fewest:,} reports.'
        )

    return FormulaProfile(formula, own * _smallest_delta(mean / 8, 4), local_epsilon, refusal, "decomposition")


def _smallest_delta(most_log: float, constant: int) -> float:
    """Return the least δ with ln(constant/δ) ≤ most_log, rounded up; infinite if there is none below one."""
    if most_log <= math.log(constant):
        return math.inf
    return constant * math.exp(-most_log * (1 - 2.0**-48)) if most_log < 700 else 0.0


def _refusal(name: str, setting: str, local_epsilon: float, *, most: float, fewest: float, numerical: Family) -> str:
    """Say what was asked, what is allowed and what to do instead."""
    allowed = f"local_epsilon <= {most:.6g}" if most > 0 else "more reports (no local_epsilon will do)"
    more = f", or at least {math.ceil(fewest):,} reports" if fewest < 1e15 else ""
    return f'{name} needs {allowed} at {setting}; got {local_epsilon:g}. Use the numerical bound="{numerical}"{more}.'
