"""Several messages a person: the bounds of covers, which people add, of dummies, and of split and mix."""

from functools import partial

from shoal.amplification.setting import Setting, ShufflingBound, computes
from shoal.assumptions import COVERS, DUMMIES, SPLIT_AND_MIX, THEOREM_D, THEOREM_M, THEOREM_V
from shoal.catalogue import register
from shoal.pairs.randomizer import ability
from shoal.privacy_profile import Profile


def _profile(setting: Setting) -> Profile:
    own: Profile = ability(setting.randomizer, "profile")(setting.reports)
    return own


register(
    ShufflingBound(
        name="covers",
        statement=(
            "Each of n people sends one message and, in each of some slots, with probability r a cover, uniform on M "
            "outputs; with S slots of n people in all. If messages are categories, M = k, then δ(ε) = E(1 − e^ε·B/(A "
            "+ 1))₊ exactly, for every dataset and every two categories, with (A, B) the counts of two outputs among "
            "S slots, each hit with probability r/k. If a message is one of the s outputs that support the category "
            "with probability τ, and else any, of which c support both of two categories, then δ(ε) ≤ E(W₁ + … + "
            "W_{S+1})₊ / (r(S + 1)), where W = M·(R_x − e^ε·R_x′)(Y) for a uniform Y with probability r, and else 0. "
            "With τ = 1 some losses are infinite, with probability (1 − r·s/M)^S or less: no δ is smaller, and there "
            "is no Rényi divergence."
        ),
        citation=THEOREM_V,
        assumptions=COVERS,
        make=_profile,
        needs="a randomizer with covers, such as Covered(categories=…, slots=…, fill=…)",
        applies=partial(computes, "covers"),
        adaptive=False,
        preference=1,
        proof="docs/theory/several-messages.md, sections 1 to 3",
        certified_by=None,
    ),
    ShufflingBound(
        name="dummies",
        statement=(
            "For each category t + Z dummies are added, Pr(Z = z) ∝ a^|z| for |z| ≤ t, a = e^(−ε₁/2). With e = Pr(Z = "
            "t) and v = Pr(0 ≤ Z < t), δ(ε) = 1 − (1 − e)² + v²·(1 − e^(ε − ε₁))₊ for every ε ≥ 0, exactly, for any "
            "number of people and whatever the others send. With several helpers it holds if one of them is honest."
        ),
        citation=THEOREM_D,
        assumptions=DUMMIES,
        make=_profile,
        needs="a randomizer with dummies, such as Dummies(categories=…, epsilon=…, limit=…)",
        applies=partial(computes, "dummies"),
        adaptive=False,
        preference=1,
        proof="docs/theory/several-messages.md, section 4",
        certified_by=None,
    ),
    ShufflingBound(
        name="split-and-mix",
        statement=(
            "Each person adds to a number of 0 to Δ steps a share of noise, NB(1/H, a) − NB(1/H, a), a = e^(−ε/Δ), and "
            "sends m numbers modulo q that add up to it, all but one of them uniform. With e = E q^(C − 1), C the "
            "number of components of a random matching of H blocks of m with H blocks of m, the shuffled messages of H "
            "honest people are (ε, (1 + e^ε)·½·√(e − 1))-DP, for every q and whatever the others send."
        ),
        citation=THEOREM_M,
        assumptions=SPLIT_AND_MIX,
        make=_profile,
        needs="SplitAndMix(epsilon=…, honest=…, people=…, messages=…)",
        applies=partial(computes, "split-and-mix"),
        adaptive=False,
        preference=1,
        proof="docs/theory/several-messages.md, section 6",
        certified_by=None,
    ),
)
