"""The theorems that certificates name and the catalogue cites, in words."""

from shoal.assumptions import CLIPPED, COINS, EPOCHS, INDEPENDENT, ONE_EXAMPLE, ONE_STEP, PERMUTED, Assumption

__all__ = [
    "BLANKET",
    "CLONES",
    "DECOMPOSITION",
    "LOSSES",
    "SHARPER",
    "STRONG",
    "SWAP_CHAINS",
    "THEOREM_D",
    "THEOREM_M",
    "THEOREM_O",
    "THEOREM_V",
    "TRAINING",
    "TWO_RATIOS",
]

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
THEOREM_V = "Theorem V of shoal (docs/theory/several-messages.md)"
THEOREM_D = "Theorem D of shoal (docs/theory/several-messages.md)"
THEOREM_M = "Theorem M of shoal (docs/theory/several-messages.md)"
SWAP_CHAINS = "Theorem N of shoal (docs/theory/tighter.md), or Theorem S where that is below"
BLANKET = "Lemma 5.3, Balle, Bell, Gascón and Nissim, arXiv 1903.02837 (CRYPTO 2019)"
THEOREM_O = f"Theorem O of shoal (docs/theory/one-bit.md), or {BLANKET}, where that is below"
LOSSES = (
    "the sum of the privacy losses of all rounds, discretised and rounded to the safe side (docs/theory/composition.md)"
)

_SHUFFLED_RUN = (CLIPPED, PERMUTED, ONE_EXAMPLE, EPOCHS)
TRAINING: dict[str, tuple[str, tuple[Assumption, ...]]] = {
    "gaussian-clones": ("Theorem G, the clones of a Gaussian (docs/theory/sgd.md)", _SHUFFLED_RUN),
    "representatives": ("Theorem R, representatives of every batch (docs/theory/samplers.md)", _SHUFFLED_RUN),
    "allocation": (
        "Theorem A, participation that is independent of the others (docs/theory/samplers.md)",
        (CLIPPED, ONE_STEP, INDEPENDENT, EPOCHS),
    ),
    "poisson": (
        "Theorem A, participation that is independent of the others, with coins (docs/theory/samplers.md)",
        (CLIPPED, COINS, INDEPENDENT, EPOCHS),
    ),
    "plain": (
        "one Gaussian mechanism an epoch (Balle and Wang, arXiv 1805.06530), whatever the order",
        (CLIPPED, ONE_EXAMPLE, EPOCHS),
    ),
}
"""Bounds of a run of noisy SGD: the theorem, and what it assumes."""
