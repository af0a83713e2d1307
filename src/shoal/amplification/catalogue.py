"""One row a bound: its name, what it says, who proved it, what it needs."""

from dataclasses import dataclass

from shoal.checks import known

__all__ = ["CATALOGUE", "Entry", "entry"]

_SHARED = "all people run the same randomizer at position i (which may depend on the reports before it)"
_SHUFFLE = "the reports are permuted uniformly at random, and nothing else tells who sent which"
_REPLACE = "neighbouring datasets differ in one person's value (replacement)"
_PURE = "every randomizer is ε₀-DP"
_DECOMPOSES = "the randomizer decomposes as described (k-ary randomized response does)"
_COMMON = (_SHARED, _SHUFFLE, _REPLACE)


@dataclass(frozen=True)
class Entry:
    """A bound of the catalogue.

    Attributes
    ----------
    name : what `amplify(bound=…)` takes.
    statement : the theorem in a few lines.
    theorem : citation, with number and version.
    assumptions : what has to be true.
    numerical : whether it is computed from a dominating pair, or is a formula.
    approximate : whether it takes randomizers with δ₀ > 0, and by which theorem.
    proof : where the proof is.
    """

    name: str
    statement: str
    theorem: str
    assumptions: tuple[str, ...]
    numerical: bool
    approximate: str | None = None
    proof: str = "the paper"


CATALOGUE = (
    Entry(
        name="strong-clones",
        statement=(
            "The shuffled reports are at most as distinguishable as P = (A + Δ, C − A + 1 − Δ) and Q "
            "= (A + 1 − Δ, C − A + Δ), with "
            "C ~ Bin(n − 1, 2/(e^ε₀ + 1)), A ~ Bin(C, 1/2), Δ ~ Bernoulli(e^ε₀/(e^ε₀ + 1)). The "
            "divergence of this pair is computed "
            "exactly, and rounded up."
        ),
        theorem=(
            "Theorem S of shoal (docs/theory/strong-clones.md); statement due to Feldman, McMillan and Talwar, "
            "arXiv 2208.04591 (SODA 2023), whose erratum restricts it"
        ),
        assumptions=(_PURE, *_COMMON),
        numerical=True,
        approximate=(
            "(ε₀, δ₀)-DP randomizers: δ = δ_pair(ε) + (n − 1)(2δ₀/e^ε₀)(1 + e^ε) + δ₀ "
            "(docs/theory/approximate.md), the best over all "
            "ε′ ≤ ε and (ε₀, δ₀) itself"
        ),
        proof="docs/theory/strong-clones.md",
    ),
    Entry(
        name="clones",
        statement=(
            "As strong-clones, with C ~ Bin(n − 1, e^−ε₀): everybody else is a clone of the victim's "
            "report in one world or the "
            "other with probability e^−ε₀ at least."
        ),
        theorem="Theorem 3.2, Feldman, McMillan and Talwar, arXiv 2012.12803v3 (FOCS 2021)",
        assumptions=(_PURE, *_COMMON),
        numerical=True,
        approximate=(
            "(ε₀, δ₀)-DP randomizers: δ = δ_pair(ε) + (e^ε + 1)(1 + e^−ε₀/2)·n·δ₀ (the paper's "
            "theorem on approximate DP), the best over all "
            "ε′ ≤ ε and (ε₀, δ₀) itself"
        ),
    ),
    Entry(
        name="clones-closed-form",
        statement=(
            "ε = ln(1 + (e^ε₀ − 1)/(e^ε₀ + 1)·(8·√(e^ε₀·ln(4/δ)/n) + 8e^ε₀/n)), if ε₀ ≤ ln(n/(16·ln(4/δ))). "
            "The printed condition has 2/δ; the proof uses 4/δ, and so do we."
        ),
        theorem=(
            "Theorem 3.1, Feldman, McMillan and Talwar, arXiv 2012.12803v3 (FOCS 2021), with the condition of its proof"
        ),
        assumptions=(_PURE, *_COMMON),
        numerical=False,
    ),
    Entry(
        name="clones-sharp-form",
        statement=(
            "With l = ln(2/δ), m = p(n − 1), C₀ = m − √(2ml) > 2l, t = √(C₀l/2) and "
            "e′ = (C₀/2 + t + 1)/(C₀/2 − t): ε = ln((e^ε₀·e′ + 1)/(e^ε₀ + e′)), for p = e^−ε₀."
        ),
        theorem="Theorem C of shoal (docs/theory/closed-forms.md), for the pair of Theorem 3.2, arXiv 2012.12803v3",
        assumptions=(_PURE, *_COMMON),
        numerical=False,
        proof="docs/theory/closed-forms.md",
    ),
    Entry(
        name="strong-clones-sharp-form",
        statement="The formula of clones-sharp-form with p = 2/(e^ε₀ + 1).",
        theorem="Theorem C of shoal (docs/theory/closed-forms.md), for the pair of Theorem S",
        assumptions=(_PURE, *_COMMON),
        numerical=False,
        proof="docs/theory/closed-forms.md",
    ),
    Entry(
        name="decomposition",
        statement=(
            "If R(xᵇ) = q·Q₁(xᵇ) + (1 − q)·Q₀ and every other R(x) ≥ p·(Q₁(x⁰) + Q₁(x¹) + Q₀), the reports are "
            "dominated by P = (A + Γ, B, C + 1 − Γ), Q = (A, B + Γ, C + 1 − Γ), with (A, B, C, D) ~ "
            "Mult(n − 1; p, p, p, 1 − 3p), Γ ~ Bernoulli(q). For k-ary randomized response "
            "q = (e^ε₀ − 1)/(e^ε₀ + k − 1) and p = k/((k + 1)(e^ε₀ + k − 1))."
        ),
        theorem="Theorem 4.1, Feldman, McMillan and Talwar, arXiv 2012.12803v3 (FOCS 2021)",
        assumptions=(_DECOMPOSES, *_COMMON),
        numerical=True,
        proof="docs/theory/closed-forms.md, section 6",
    ),
    Entry(
        name="decomposition-closed-form",
        statement=(
            "ε = ln(1 + q·(4·√(2·ln(4/δ)/(pn)) + 4/(pn))) at δ′ = q·δ, if p ≥ 8·ln(4/δ)/n; for k-ary randomized "
            "response this is the paper's corollary, with its condition corrected."
        ),
        theorem=(
            "Theorem 4.1 and the corollary for k-RR, Feldman, McMillan and Talwar, arXiv 2012.12803v3 (FOCS 2021), "
            "with the condition p ≥ 8·ln(4/δ)/n"
        ),
        assumptions=(_DECOMPOSES, *_COMMON),
        numerical=False,
        proof="docs/theory/closed-forms.md, sections 6 and 7",
    ),
)

_BY_NAME = {row.name: row for row in CATALOGUE}


def entry(name: str) -> Entry:
    """Return the row of a bound.

    Examples
    --------
    >>> entry("clones").theorem
    'Theorem 3.2, Feldman, McMillan and Talwar, arXiv 2012.12803v3 (FOCS 2021)'
    """
    return _BY_NAME[known(tuple(_BY_NAME), bound=name)]
