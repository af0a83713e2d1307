"""Theorem 4.1: a tighter pair for a randomizer that is known to decompose, and its closed form."""

import math

from shoal.amplification.closed_form import FormulaProfile, least_delta
from shoal.amplification.setting import Setting, ShufflingBound
from shoal.assumptions import ADAPTIVE, DECOMPOSES, DECOMPOSITION, PURE
from shoal.catalogue import register
from shoal.errors import ParameterError
from shoal.pairs import DecompositionPair
from shoal.pairs.decomposition import Decomposition
from shoal.rounding import slack

_UP = 1 + slack(128)
"""Covers the rounding of a dozen operations."""


def decomposition(setting: Setting) -> DecompositionPair:
    """Return the multinomial pair of Theorem 4.1, arXiv 2012.12803v3."""
    parts = _parts(setting)
    return DecompositionPair(setting.reports, parts.blanket_probability, parts.own_probability, parts.local_epsilon)


def _parts(setting: Setting) -> Decomposition:
    if setting.decomposition is None:
        raise ParameterError("a bound of Theorem 4.1 needs a randomizer that is known to decompose")
    parts = setting.decomposition
    if parts.local_epsilon < setting.local_epsilon:
        raise ParameterError(
            f"the decomposition of {setting.randomizer!r} has local_epsilon={parts.local_epsilon!r}, and the "
            f"randomizer has {setting.local_epsilon!r}; give both the same"
        )
    return parts


def decomposition_form(setting: Setting) -> FormulaProfile:
    """Return ε = ln(1 + q·(4·√(2·ln(4/δ)/(pn)) + 4/(pn))), which holds with q·δ, for p ≥ 8·ln(4/δ)/n.

    Theorem 4.1, arXiv 2012.12803v3, and its corollary for k-ary randomized response, whose printed condition is
    wrong: the one on p is tested itself (docs/theory/errata.md).
    """
    randomizer = _parts(setting)
    reports = setting.reports
    own = randomizer.own_probability
    local_epsilon = randomizer.local_epsilon
    mean = randomizer.blanket_probability * reports * (1 - slack(8))

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

    return FormulaProfile(formula, own * least_delta(mean / 8, 4), local_epsilon, refusal, "decomposition")


register(
    ShufflingBound(
        name="decomposition",
        statement=(
            "If R(xᵇ) = q·Q₁(xᵇ) + (1 − q)·Q₀, and R(x) ≥ p·(Q₁(x⁰) + Q₁(x¹) + Q₀) for every input x that another "
            "person may hold, x⁰ and x¹ included, the reports are dominated by P = (A + Γ, B, C + 1 − Γ), "
            "Q = (A, B + Γ, C + 1 − Γ), with (A, B, C, D) ~ "
            "Mult(n − 1; p, p, p, 1 − 3p), Γ ~ Bernoulli(q). For k-ary randomized response "
            "q = (e^ε₀ − 1)/(e^ε₀ + k − 1) and p = k/((k + 1)(e^ε₀ + k − 1))."
        ),
        citation=DECOMPOSITION,
        assumptions=(DECOMPOSES, PURE, *ADAPTIVE),
        make=decomposition,
        preference=2,
        needs="a randomizer that is known to decompose, with local_epsilon < 600",
        applies=lambda setting: setting.decomposition is not None,
        proof="docs/theory/closed-forms.md, section 6",
    ),
    ShufflingBound(
        name="decomposition-closed-form",
        statement=(
            "ε = ln(1 + q·(4·√(2·ln(4/δ)/(pn)) + 4/(pn))) at δ′ = q·δ, if p ≥ 8·ln(4/δ)/n, with p and q as in "
            "decomposition; for k-ary randomized response this is the paper's corollary, with its condition corrected."
        ),
        citation=(
            "Theorem 4.1 and the corollary for k-RR, Feldman, McMillan and Talwar, arXiv 2012.12803v3 (FOCS 2021), "
            "with the condition p ≥ 8·ln(4/δ)/n"
        ),
        assumptions=(DECOMPOSES, PURE, *ADAPTIVE),
        numerical=False,
        make=decomposition_form,
        needs="a randomizer that is known to decompose, with local_epsilon < 600",
        applies=lambda setting: setting.decomposition is not None,
        range="p ≥ 8·ln(4/δ)/n",
        certified_by="decomposition",
        proof="docs/theory/closed-forms.md, sections 6 and 7",
    ),
)
