"""What `explain` knows beside the bounds of one round: how rounds add up, and noisy SGD."""

from dataclasses import dataclass

from shoal.amplification.catalogue import CATALOGUE, Entry
from shoal.checks import known
from shoal.composition.compose import FRESH
from shoal.composition.compose import THEOREMS as OF_ROUNDS
from shoal.sgd.bounds import THEOREMS as OF_SGD

__all__ = ["EXPLAINED", "Theorem", "explained"]

_CLIPPED = "the gradient of every example is clipped, and every step adds fresh normal noise to what it releases"
_ONE = "neighbouring datasets differ in one example, replaced or zeroed; none is added or removed"
_ORDER = "every pass permutes the examples, and the empty slots of its last batch, uniformly and afresh"


@dataclass(frozen=True)
class Theorem:
    """A theorem that is not about one round of reports; its attributes are those of an entry of the catalogue."""

    name: str
    statement: str
    theorem: str
    assumptions: tuple[str, ...]
    needs: str
    range: str
    proof: str
    numerical: bool = True
    adaptive: bool = True
    approximate: str | None = None
    proven: bool = True


def _of_rounds(name: str, statement: str, sections: str, *, numerical: bool = True) -> Theorem:
    return Theorem(
        name=name,
        statement=statement,
        theorem=OF_ROUNDS[name],
        assumptions=(FRESH, "what the bound of each round assumes"),
        needs="rounds that are settled in advance; a method of `shoal compose`",
        range="all rounds and δ",
        proof=f"docs/theory/composition.md, {sections}",
        numerical=numerical,
    )


def _of_sgd(name: str, statement: str, proof: str, *, shuffled: bool = True) -> Theorem:
    return Theorem(
        name=name,
        statement=statement,
        theorem=OF_SGD[name],
        assumptions=(_CLIPPED, *((_ORDER,) if shuffled else ()), _ONE),
        needs="a run of noisy SGD; a bound of `shoal sgd` and `shoal train`",
        range="noise enough for elements to hide one another" if shuffled else "all runs, in any order",
        proof=proof,
        numerical=shuffled,
    )


EXPLAINED: tuple[Entry | Theorem, ...] = (
    *CATALOGUE,
    _of_rounds(
        "loss",
        "Let μᵣ be a distribution of losses with δᵣ(ε) ≤ E[(1 − e^(ε − L))₊], L ~ μᵣ, for every ε and in both "
        "directions. Then all rounds together have δ(ε) ≤ E[(1 − e^(ε − L₁ − … − L_T))₊] for independent Lᵣ ~ μᵣ. Each "
        "δᵣ(ε) is bounded on a grid, from above and from below, and the sum is computed with all rounding charged.",
        "sections 1 to 6",
    ),
    _of_rounds(
        "renyi",
        "Rényi divergences of one order add up, ρ(α) = Σ ρᵣ(α), and for every real α > 1 "
        "ε = ρ(α) + (ln(1/δ) + (α − 1)·ln(1 − 1/α) − ln α)/(α − 1); the least over α.",
        "section 7",
    ),
    _of_rounds(
        "advanced",
        "If round i is (εᵢ, δᵢ)-DP, then 1 − δ(ε) = Π(1 − δᵢ)·(1 − δ′(ε)), where δ′ is that of independent randomized "
        "responses with the losses ±εᵢ. Nothing better follows from one (εᵢ, δᵢ) a round. The δᵢ are chosen for the "
        "least ε.",
        "section 8",
    ),
    _of_rounds(
        "advanced-closed-form",
        "With m = Σ εᵢ·tanh(εᵢ/2) and s² = Σ εᵢ², the ε of (εᵢ, δᵢ)-DP rounds is the least of Σ εᵢ, "
        "m + s·√(2·ln(1/δ′)) and m + s·√(2·ln(e + s/δ′)), at 1 − δ = Π(1 − δᵢ)·(1 − δ′).",
        "section 8",
        numerical=False,
    ),
    _of_sgd(
        "plain",
        "An example is in one noised vector a pass, and moves its mean by D = 2C if it is replaced, C if it is zeroed, "
        "with C the clip norm. T passes are dominated by the Gaussian mechanism with μ = √T·D/deviation: "
        "δ(ε) = Φ(μ/2 − ε/μ) − e^ε·Φ(−μ/2 − ε/μ).",
        "docs/theory/sgd.md, section 2",
        shuffled=False,
    ),
    _of_sgd(
        "two-ratios",
        "Let the two reports of one example have δ_p at the ratio p, and those of any two of the n elements δ_q at "
        "q ≥ 2p/(p + 1). Then δ(ε) is at most that of the pair of Theorem S with C ~ Bin(n − 1, 2p/(q(p + 1))) and "
        "Δ ~ Bernoulli(p/(p + 1)), plus (n − 1)·(2δ_q/q)·(1 + e^ε) + δ_p; p and q are chosen for the least ε.",
        "docs/theory/approximate.md, section 5, and docs/theory/strong-clones.md, section 9",
    ),
    _of_sgd(
        "gaussian-clones",
        "Let all n elements lie within s of a centre, and the two of one example at distances a and b from it, in "
        "deviations of the noise. With q ≥ 1, d = D_q(N(0, 1), N(s, 1))/q and V = q·(e^(aZ − a²/2) − "
        "e^ε·e^(−bZ − b²/2)) with probability 1/q, else 0, Z normal: δ(ε) ≤ "
        "(1 + d)^(n − 1)·(E[(V₁′ + … + Vₙ′)₊]/n + κ), where V′ is (1 + d)·V with probability 1/(1 + d), else 0, "
        "κ = Φ(x) − q·e^(−rs)·Φ(x − s), x = s/2 + r − ln(q)/s and r = max(a, b).",
        "docs/theory/sgd.md, sections 3 and 4",
    ),
)
"""All that has a name: the bounds of one round, the ways to add rounds up, the bounds of a run of SGD."""

_BY_NAME = {row.name: row for row in EXPLAINED}


def explained(name: str) -> Entry | Theorem:
    """Return what is known of a theorem.

    Examples
    --------
    >>> explained("gaussian-clones").proof
    'docs/theory/sgd.md, sections 3 and 4'
    """
    return _BY_NAME[known(tuple(_BY_NAME), bound=name)]
