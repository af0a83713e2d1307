"""Formulas that need no numerics, each with its range of validity (docs/theory/closed-forms.md)."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from shoal.amplification.setting import Setting, ShufflingBound
from shoal.assumptions import ADAPTIVE, PURE
from shoal.catalogue import register
from shoal.checks import SMALLEST_DELTA
from shoal.errors import RangeError
from shoal.pairs import ClonePair, Family
from shoal.privacy_profile import UpperProfile
from shoal.rounding import slack
from shoal.searches import bisect_safe

_UP = 1 + slack(128)
"""Covers the rounding of a dozen operations."""


@dataclass(frozen=True)
class FormulaProfile(UpperProfile):
    """A formula ε(δ) that falls with δ, at most `local_epsilon`, and is proven from `smallest_delta` on.

    `refusal` returns the error for a smaller δ, and `numerical` is the name of the bound that has a
    pair.
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

        def safe(point: float) -> bool:
            return self.formula(min(largest, math.exp(point - limit))) <= epsilon

        point = bisect_safe(safe, unsafe=0.0, good=limit, within=1e-13 * limit)
        return min(1.0, math.exp(point - limit) * (1 + 1e-12))


def theorem_3_1(setting: Setting) -> FormulaProfile:
    """Return ε = ln(1 + (E − 1)/(E + 1)·(8·√(E·ln(4/δ)/n) + 8E/n)), E = e^ε₀, for ε₀ ≤ ln(n/(16·ln(4/δ))).

    Theorem 3.1, arXiv 2012.12803v3; the condition is the one its proof uses.
    """
    reports = setting.reports
    local_epsilon = setting.local_epsilon
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

    return FormulaProfile(formula, least_delta(1 / (16 * ratio), 4), local_epsilon, refusal, "clones")


def sharp_form(family: Family, setting: Setting) -> FormulaProfile:
    """Return the sharpest closed form for a clones pair.

    With l = ln(2/δ), m = p(n − 1), C₀ = m − √(2ml) > 2l, t = √(C₀l/2) and e′ = (C₀/2 + t + 1)/(C₀/2 − t): ε =
    ln((e^ε₀·e′ + 1)/(e^ε₀ + e′)). Theorem C, docs/theory/closed-forms.md.
    """
    reports = setting.reports
    local_epsilon = setting.local_epsilon
    mean = ClonePair(reports, local_epsilon, family).clone_probability * (reports - 1) * (1 - slack(8))
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
        rounding = 1 + slack(128) * (1 + clones / room)
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

    return FormulaProfile(formula, least_delta(mean / needed, 2), local_epsilon, refusal, family)


def least_delta(most_log: float, constant: int) -> float:
    """Return the least δ with ln(constant/δ) ≤ most_log, rounded up; infinite if there is none below one."""
    if most_log <= math.log(constant):
        return math.inf
    return constant * math.exp(-most_log * (1 - slack(32))) if most_log < 700 else 0.0


def _refusal(name: str, setting: str, local_epsilon: float, *, most: float, fewest: float, numerical: Family) -> str:
    """Say what was asked, what is allowed and what to do instead."""
    allowed = f"local_epsilon <= {most:.6g}" if most > 0 else "more reports (no local_epsilon will do)"
    more = f", or at least {math.ceil(fewest):,} reports" if fewest < 1e15 else ""
    return f'{name} needs {allowed} at {setting}; got {local_epsilon:g}. Use the numerical bound="{numerical}"{more}.'


register(
    ShufflingBound(
        name="clones-closed-form",
        statement=(
            "ε = ln(1 + (e^ε₀ − 1)/(e^ε₀ + 1)·(8·√(e^ε₀·ln(4/δ)/n) + 8e^ε₀/n)), if ε₀ ≤ ln(n/(16·ln(4/δ))). "
            "The printed condition has 2/δ; the proof uses 4/δ, and so do we."
        ),
        citation=(
            "Theorem 3.1, Feldman, McMillan and Talwar, arXiv 2012.12803v3 (FOCS 2021), with the condition of its proof"
        ),
        assumptions=(PURE, *ADAPTIVE),
        numerical=False,
        make=theorem_3_1,
        range="ε₀ ≤ ln(n/(16·ln(4/δ)))",
        certified_by="clones",
    ),
    ShufflingBound(
        name="clones-sharp-form",
        statement=(
            "With l = ln(2/δ), m = p(n − 1), C₀ = m − √(2ml) > 2l, t = √(C₀l/2) and "
            "e′ = (C₀/2 + t + 1)/(C₀/2 − t): ε = ln((e^ε₀·e′ + 1)/(e^ε₀ + e′)), for p = e^−ε₀."
        ),
        citation="Theorem C of shoal (docs/theory/closed-forms.md), for the pair of Theorem 3.2, arXiv 2012.12803v3",
        assumptions=(PURE, *ADAPTIVE),
        numerical=False,
        make=partial(sharp_form, "clones"),
        certified_by="clones",
        range="C₀ > 2l",
        proof="docs/theory/closed-forms.md",
    ),
    ShufflingBound(
        name="strong-clones-sharp-form",
        statement="The formula of clones-sharp-form with p = 2/(e^ε₀ + 1).",
        citation="Theorem C of shoal (docs/theory/closed-forms.md), for the pair of Theorem S",
        assumptions=(PURE, *ADAPTIVE),
        numerical=False,
        make=partial(sharp_form, "strong-clones"),
        range="C₀ > 2l",
        proof="docs/theory/closed-forms.md",
    ),
)
