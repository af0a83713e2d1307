"""The sentences that certificates carry: theorems and assumptions, word for word as the catalogue has them."""

__all__ = [
    "ADAPTIVE",
    "APPROXIMATE",
    "BLANKET",
    "CLONES",
    "DECOMPOSES",
    "DECOMPOSITION",
    "DESCRIBED",
    "FIXED",
    "FRESH",
    "LOSSES",
    "PURE",
    "SHARPER",
    "STRONG",
    "TWO_RATIOS",
]

PURE = "every randomizer is ε₀-DP"
APPROXIMATE = "every randomizer is (ε₀, δ₀)-DP"
DESCRIBED = "the randomizer is the one described, and its outputs are shuffled as they are"
DECOMPOSES = (
    "for every two inputs x⁰, x¹ the randomizer decomposes as described, and the inequality holds for every input that "
    "another person may hold, x⁰ and x¹ included (k-ary randomized response does)"
)
_SHUFFLE = (
    "the reports are permuted uniformly at random, nothing else tells who sent which, and whoever looks has made up "
    "none of them, and knows none of them"
)
_REPLACE = "neighbouring datasets differ in one person's value (replacement)"
ADAPTIVE = (
    "all people run the same randomizer at position i (which may depend on the reports before it)",
    _SHUFFLE,
    _REPLACE,
)
FIXED = (
    "all people run the same randomizer, fixed beforehand: not chosen from the reports of others",
    _SHUFFLE,
    _REPLACE,
)
FRESH = (
    "every round has a fresh shuffle and fresh randomness; what people report may depend on earlier rounds, but not n, "
    "ε₀ or the randomizer of a round, nor how many rounds there are (for those, see Ledger.budget)"
)

STRONG = (
    "Theorem S of shoal (docs/theory/strong-clones.md); statement due to Feldman, McMillan and Talwar, "
    "arXiv 2208.04591 (SODA 2023), whose erratum restricts it"
)
SHARPER = (
    "(ε₀, δ₀)-DP randomizers: δ = δ_pair(ε) + (n − 1)(2δ₀/e^ε₀)(1 + e^ε) + δ₀ (docs/theory/approximate.md), or the "
    "lowest chord in e^ε from an ε′ ≤ ε to (ε₀, δ₀)"
)
CLONES = (
    "Theorem 3.2, Feldman, McMillan and Talwar, arXiv 2012.12803v3 (FOCS 2021)",
    "(ε₀, δ₀)-DP randomizers: δ = δ_pair(ε) + (e^ε + 1)(1 + e^−ε₀/2)·n·δ₀ (the paper's theorem on approximate DP), or "
    "the lowest chord in e^ε from an ε′ ≤ ε to (ε₀, δ₀)",
)
TWO_RATIOS = "Theorem S with two ratios (docs/theory/strong-clones.md, section 9)"
DECOMPOSITION = "Theorem 4.1, Feldman, McMillan and Talwar, arXiv 2012.12803v3 (FOCS 2021)"
BLANKET = "Lemma 5.3, Balle, Bell, Gascón and Nissim, arXiv 1903.02837 (CRYPTO 2019)"
LOSSES = (
    "the sum of the privacy losses of all rounds, discretised and rounded to the safe side (docs/theory/composition.md)"
)
