"""One row a bound: its name, what it says, who proved it, what it needs, and the function that computes it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from shoal.amplification.approximate import ApproximateProfile
from shoal.amplification.blanket import blanket
from shoal.amplification.blanket_form import BlanketForm, Inequality
from shoal.amplification.clones import clones
from shoal.amplification.closed_form import decomposition_form, sharp_form, theorem_3_1
from shoal.amplification.decomposition import decomposed
from shoal.amplification.gaussian_profile import GaussianProfile
from shoal.amplification.girgis import GirgisForm
from shoal.amplification.koskela import KoskelaProfile
from shoal.amplification.published import BinaryResponseForm, CheckInForm, FirstForm, ReplacementForm
from shoal.amplification.setting import Setting
from shoal.checks import known
from shoal.curve import Profile
from shoal.errors import ParameterError
from shoal.pairs import ClonePair, Family
from shoal.randomizers import Categorical, Gaussian, Laplace, OneBitMean, RandomizedResponse

__all__ = ["CATALOGUE", "Entry", "entry"]

_SHARED = "all people run the same randomizer at position i (which may depend on the reports before it)"
_SHUFFLE = (
    "the reports are permuted uniformly at random, nothing else tells who sent which, and whoever looks has made up "
    "none of them, and knows none of them"
)
_REPLACE = "neighbouring datasets differ in one person's value (replacement)"
_PURE = "every randomizer is ε₀-DP"
_FIXED = "all people run the same randomizer, fixed beforehand: not chosen from the reports of others"
_KNOWN = "the randomizer is the one described, and its outputs are shuffled as they are"
_DECOMPOSES = (
    "for every two inputs x⁰, x¹ the randomizer decomposes as described, and the inequality holds for every input that "
    "another person may hold, x⁰ and x¹ included (k-ary randomized response does)"
)
_COMMON = (_SHARED, _SHUFFLE, _REPLACE)
_RIGID = (_FIXED, _SHUFFLE, _REPLACE)


def _any(setting: Setting) -> bool:
    return setting.pure


def _local(setting: Setting) -> bool:
    """Tell whether ε₀ and δ₀ are all that is needed."""
    return setting.pure or bool(setting.local_delta)


@dataclass(frozen=True)
class Entry:
    """A bound of the catalogue.

    Attributes
    ----------
    name : str
        What `amplify(bound=…)` takes.
    statement : str
        The theorem in a few lines.
    theorem : str
        Citation, with number and version.
    assumptions : tuple of str
        What has to be true.
    numerical : bool
        Whether it is computed from a dominating pair, or is a formula.
    make : callable
        The function from a setting to the bound.
    needs, applies : str, callable
        Which settings it takes, in words and as a function.
    range : str
        For which n, ε₀ and δ it says something.
    adaptive : bool
        Whether randomizers may depend on earlier reports.
    approximate : str, optional
        Whether it takes randomizers with δ₀ > 0, and by which theorem.
    proof : str
        Where the proof is.
    proven : bool
        False for what is shown for comparison only, and is no guarantee.
    """

    name: str
    statement: str
    theorem: str
    assumptions: tuple[str, ...]
    numerical: bool
    make: Callable[[Setting], Profile]
    needs: str = "any ε₀-DP randomizer"
    applies: Callable[[Setting], bool] = _any
    range: str = "all n, ε₀ and δ"
    adaptive: bool = True
    approximate: str | None = None
    proof: str = "the paper"
    proven: bool = True


def _of_clones(family: Family) -> Callable[[Setting], Profile]:
    def make(setting: Setting) -> Profile:
        if setting.local_delta:
            return ApproximateProfile(ClonePair(setting.reports, setting.local_epsilon, family), setting.local_delta)
        return clones(family, reports=setting.reports, local_epsilon=setting.local_epsilon)

    return make


def _formula(function: Callable[..., Profile], *arguments: object) -> Callable[[Setting], Profile]:
    """Return a maker from a function of n and ε₀."""
    return lambda setting: function(*arguments, reports=setting.reports, local_epsilon=setting.local_epsilon)


def _blanket(setting: Setting) -> Profile:
    if isinstance(setting.randomizer, Gaussian):
        return GaussianProfile(setting.reports, setting.randomizer.relative_deviation)
    if isinstance(setting.randomizer, (Categorical, Laplace, OneBitMean)):
        return blanket(setting.randomizer, reports=setting.reports)
    raise ParameterError("the blanket needs a randomizer whose likelihoods are known")


def _blanket_form(inequality: Inequality) -> Callable[[Setting], Profile]:
    def make(setting: Setting) -> Profile:
        if isinstance(setting.randomizer, (OneBitMean, RandomizedResponse)):
            size = 2 if isinstance(setting.randomizer, OneBitMean) else setting.randomizer.categories
            return BlanketForm(setting.reports, setting.local_epsilon, inequality, "response", size)
        kind: Literal["laplace", "generic"] = "laplace" if isinstance(setting.randomizer, Laplace) else "generic"
        return BlanketForm(setting.reports, setting.local_epsilon, inequality, kind)

    return make


def _parts(function: Callable[..., Profile]) -> Callable[[Setting], Profile]:
    """Return a maker from a function of a decomposition and n."""
    return lambda setting: function(setting.decomposition, reports=setting.reports)


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
        make=_of_clones("strong-clones"),
        applies=_local,
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
        make=_of_clones("clones"),
        applies=_local,
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
        make=_formula(theorem_3_1),
        range="ε₀ ≤ ln(n/(16·ln(4/δ)))",
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
        make=_formula(sharp_form, "clones"),
        range="C₀ > 2l",
        proof="docs/theory/closed-forms.md",
    ),
    Entry(
        name="strong-clones-sharp-form",
        statement="The formula of clones-sharp-form with p = 2/(e^ε₀ + 1).",
        theorem="Theorem C of shoal (docs/theory/closed-forms.md), for the pair of Theorem S",
        assumptions=(_PURE, *_COMMON),
        numerical=False,
        make=_formula(sharp_form, "strong-clones"),
        range="C₀ > 2l",
        proof="docs/theory/closed-forms.md",
    ),
    Entry(
        name="blanket",
        statement=(
            "With ω(y) = min R_x(y) over all inputs x, δ(ε) = E[(W₁ + … + Wₙ)₊]/n for independent copies of "
            "W = (R₀(Y) − e^ε·R₁(Y))/ω(Y), Y drawn from ω, and W = 0 with the probability that ω lacks; the largest "
            "over all pairs of inputs, in both directions. The likelihoods are those of the randomizer given: k-ary "
            "randomized response, Hadamard response, RAPPOR, unary encoding and subset selection, exactly; Laplace and "
            "Gaussian noise on [0, 1], discretised upwards (Theorem B: 0 and 1 are the worst pair)."
        ),
        theorem="Lemma 5.3, Balle, Bell, Gascón and Nissim, arXiv 1903.02837 (CRYPTO 2019)",
        assumptions=(_KNOWN, _FIXED, _SHUFFLE, _REPLACE),
        numerical=True,
        make=_blanket,
        needs="a randomizer whose likelihoods are known, with local_epsilon <= 700",
        applies=lambda setting: setting.known,
        adaptive=False,
        proof="docs/theory/blanket.md",
    ),
    Entry(
        name="decomposition",
        statement=(
            "If R(xᵇ) = q·Q₁(xᵇ) + (1 − q)·Q₀, and R(x) ≥ p·(Q₁(x⁰) + Q₁(x¹) + Q₀) for every input x that another "
            "person may hold, x⁰ and x¹ included, the reports are dominated by P = (A + Γ, B, C + 1 − Γ), "
            "Q = (A, B + Γ, C + 1 − Γ), with (A, B, C, D) ~ "
            "Mult(n − 1; p, p, p, 1 − 3p), Γ ~ Bernoulli(q). For k-ary randomized response "
            "q = (e^ε₀ − 1)/(e^ε₀ + k − 1) and p = k/((k + 1)(e^ε₀ + k − 1))."
        ),
        theorem="Theorem 4.1, Feldman, McMillan and Talwar, arXiv 2012.12803v3 (FOCS 2021)",
        assumptions=(_DECOMPOSES, _PURE, *_COMMON),
        numerical=True,
        make=_parts(decomposed),
        needs="a randomizer that is known to decompose, with local_epsilon < 600",
        applies=lambda setting: setting.decomposition is not None,
        proof="docs/theory/closed-forms.md, section 6",
    ),
    Entry(
        name="decomposition-closed-form",
        statement=(
            "ε = ln(1 + q·(4·√(2·ln(4/δ)/(pn)) + 4/(pn))) at δ′ = q·δ, if p ≥ 8·ln(4/δ)/n, with p and q as in "
            "decomposition; for k-ary randomized response this is the paper's corollary, with its condition corrected."
        ),
        theorem=(
            "Theorem 4.1 and the corollary for k-RR, Feldman, McMillan and Talwar, arXiv 2012.12803v3 (FOCS 2021), "
            "with the condition p ≥ 8·ln(4/δ)/n"
        ),
        assumptions=(_DECOMPOSES, _PURE, *_COMMON),
        numerical=False,
        make=_parts(decomposition_form),
        needs="a randomizer that is known to decompose, with local_epsilon < 600",
        applies=lambda setting: setting.decomposition is not None,
        range="p ≥ 8·ln(4/δ)/n",
        proof="docs/theory/closed-forms.md, sections 6 and 7",
    ),
    Entry(
        name="blanket-bennett",
        statement=(
            "δ = b₊/(γn·ln(1 + ab₊/c))·((1 − γ + γe^−s)ⁿ − (1 − γ)ⁿ), a = e^ε − 1, s = (c/b₊²)·φ(ab₊/c), "
            "φ(u) = (1 + u)ln(1 + u) − u; γ, b₊ and c are those of any ε₀-DP randomizer, of k-ary randomized "
            "response, or of Laplace noise on [0, 1]."
        ),
        theorem="Balle, Bell, Gascón and Nissim, arXiv 1903.02837 (CRYPTO 2019): the blanket lemma, then Bennett",
        assumptions=(_PURE, *_RIGID),
        numerical=False,
        make=_blanket_form("bennett"),
        adaptive=False,
        proof="the paper, and again in shoal.amplification.blanket_form",
    ),
    Entry(
        name="blanket-hoeffding",
        statement=(
            "δ = b²/(4aγn)·((1 − γ + γe^{−2a²/b²})ⁿ − (1 − γ)ⁿ), a = e^ε − 1; γ and b are those of any ε₀-DP "
            "randomizer, of k-ary randomized response, or of Laplace noise on [0, 1]."
        ),
        theorem="Balle, Bell, Gascón and Nissim, arXiv 1903.02837 (CRYPTO 2019): the blanket lemma, then Hoeffding",
        assumptions=(_PURE, *_RIGID),
        numerical=False,
        make=_blanket_form("hoeffding"),
        adaptive=False,
        proof="the paper, and again in shoal.amplification.blanket_form",
    ),
    Entry(
        name="girgis",
        statement=(
            "The Rényi divergence of integer order α, with m = ⌊(n − 1)/(2e^ε₀)⌋ + 1, is at most "
            "ln(1 + C(α,2)(e^ε₀ − 1)²/(me^ε₀) + Σ_{i≥3} C(α,i)·i·Γ(i/2)·((e^{2ε₀} − 1)²/(2me^{2ε₀}))^{i/2} "
            "+ e^{ε₀α − (n−1)/(8e^ε₀)})/(α − 1); between integers (α − 1)·D_α is convex; ε by Proposition 12 of "
            "arXiv 2004.00010."
        ),
        theorem="Theorem 1, Girgis, Data, Diggavi, Suresh and Kairouz, arXiv 2105.05180 (CCS 2021)",
        assumptions=(_PURE, *_RIGID),
        numerical=False,
        make=_formula(GirgisForm),
        adaptive=False,
        proof="the paper, and again in shoal.amplification.girgis",
    ),
    Entry(
        name="koskela",
        statement=(
            "The pair of clones, through its privacy-loss distribution on a grid: the way to composition. The dots of "
            "δ(ε) are connected, where the authors round every loss up."
        ),
        theorem=(
            "Koskela, Heikkilä and Honkela, arXiv 2106.00477 (TMLR 2023), for the pair of Theorem 3.2, "
            "arXiv 2012.12803v3"
        ),
        assumptions=(_PURE, *_COMMON),
        numerical=True,
        make=_formula(KoskelaProfile),
        proof="docs/theory/composition.md",
    ),
    Entry(
        name="erlingsson",
        statement="ε = 12·ε₀·√(ln(1/δ)/n).",
        theorem=(
            "Erlingsson, Feldman, Mironov, Raghunathan, Talwar and Thakurta, arXiv 1811.12469 (SODA 2019), with the "
            "constants of the release of arXiv 1903.02837"
        ),
        assumptions=(_PURE, *_COMMON),
        numerical=False,
        make=_formula(FirstForm),
        range="n ≥ 1000, ε₀ < 1/2, δ < 1/100",
        proof="shoal.amplification.published, from Theorem C",
    ),
    Entry(
        name="cheu",
        statement=(
            "For binary randomized response, with L = ln(4/δ), λ = 2n/(e^ε₀ + 1) ≥ 14L and x = λ − √(2λ·ln(2/δ)): "
            "ε = √(32L/x)·(1 − x/n)."
        ),
        theorem="Cheu, Smith, Ullman, Zeber and Zhilyaev, arXiv 1808.01394 (EUROCRYPT 2019)",
        assumptions=("every report is binary randomized response", *_RIGID),
        numerical=False,
        make=_formula(BinaryResponseForm),
        needs="binary randomized response, RandomizedResponse(categories=2, local_epsilon=…)",
        applies=lambda setting: setting.binary,
        range="2n/(e^ε₀ + 1) ≥ 14·ln(4/δ), δ ≤ 1/10",
        adaptive=False,
        proof="shoal.amplification.published",
    ),
    Entry(
        name="check-ins",
        statement="ε = s²/2 + s·√(2·ln(1/δ)), s = e^{3ε₀/2}·(e^ε₀ − 1)/√n. The constants could not be confirmed.",
        theorem="after Balle, Kairouz, McMahan, Thakkar and Thakurta, arXiv 2007.06605 (NeurIPS 2020)",
        assumptions=(_PURE, *_COMMON),
        numerical=False,
        make=_formula(CheckInForm),
        proof="none here",
        proven=False,
    ),
    Entry(
        name="bassily",
        statement=(
            "Not for shuffling: n steps, each on a record drawn with replacement. With ε′ = ln(1 + (e^ε₀ − 1)/n), "
            "ε = √(2n·ln(1/δ))·ε′ + (e^ε₀ − 1)·ε′."
        ),
        theorem=(
            "Bassily, Smith and Thakurta, arXiv 1405.7085 (FOCS 2014), as in arXiv 2012.12803v3, with the constants "
            "of advanced composition"
        ),
        assumptions=(_PURE, "every step draws its record with replacement", _REPLACE),
        numerical=False,
        make=_formula(ReplacementForm),
        proof="shoal.amplification.published; it holds for another way to sample, and says nothing about shuffling",
        proven=False,
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
