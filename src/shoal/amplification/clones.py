"""The paper's reduction (Theorem 3.2) and its stronger relative: everybody is a clone of the victim now and then."""

from shoal.amplification.approximate import ApproximateProfile
from shoal.amplification.setting import Setting
from shoal.amplification.shuffling_bound import ShufflingBound
from shoal.assumptions import ADAPTIVE, CLONES, PURE, STRONG
from shoal.catalogue import register
from shoal.pairs import ClonePair, Family
from shoal.privacy_profile import Profile

__all__ = ["clones", "strong_clones"]


def strong_clones(setting: Setting) -> Profile:
    """Return the profile of the pair with p = 2/(e^ε₀ + 1): Theorem S, docs/theory/strong-clones.md."""
    return _profile(setting, "strong-clones")


def clones(setting: Setting) -> Profile:
    """Return the profile of the pair with p = e^−ε₀: Theorem 3.2, arXiv 2012.12803v3."""
    return _profile(setting, "clones")


def _profile(setting: Setting, family: Family) -> Profile:
    pair = ClonePair(setting.reports, setting.local_epsilon, family)
    return ApproximateProfile(pair, setting.local_delta) if setting.local_delta else pair


register(
    ShufflingBound(
        name="strong-clones",
        statement=(
            "The shuffled reports are at most as distinguishable as P = (A + Δ, C − A + 1 − Δ) and Q "
            "= (A + 1 − Δ, C − A + Δ), with "
            "C ~ Bin(n − 1, 2/(e^ε₀ + 1)), A ~ Bin(C, 1/2), Δ ~ Bernoulli(e^ε₀/(e^ε₀ + 1)). The "
            "divergence of this pair is computed "
            "exactly, and rounded up."
        ),
        citation=STRONG,
        assumptions=(PURE, *ADAPTIVE),
        make=strong_clones,
        preference=2,
        approximate=(
            "(ε₀, δ₀)-DP randomizers: δ = δ_pair(ε) + (n − 1)(2δ₀/e^ε₀)(1 + e^ε) + δ₀ "
            "(docs/theory/approximate.md), or the "
            "lowest chord in e^ε from an ε′ ≤ ε to (ε₀, δ₀)"
        ),
        proof="docs/theory/strong-clones.md",
    ),
    ShufflingBound(
        name="clones",
        statement=(
            "As strong-clones, with C ~ Bin(n − 1, e^−ε₀): everybody else is a clone of the victim's "
            "report in one world or the "
            "other with probability e^−ε₀ at least."
        ),
        citation=CLONES[0],
        assumptions=(PURE, *ADAPTIVE),
        make=clones,
        approximate=(
            "(ε₀, δ₀)-DP randomizers: δ = δ_pair(ε) + (e^ε + 1)(1 + e^−ε₀/2)·n·δ₀ (the paper's "
            "theorem on approximate DP), or the "
            "lowest chord in e^ε from an ε′ ≤ ε to (ε₀, δ₀)"
        ),
    ),
)
