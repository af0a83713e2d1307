"""The sentences that certificates carry: theorems and assumptions, word for word as the catalogue has them."""

__all__ = [
    "ADAPTIVE",
    "ANYWHERE",
    "APPROXIMATE",
    "BLANKET",
    "CLONES",
    "COLLUDE",
    "COVERS",
    "DECOMPOSES",
    "DECOMPOSITION",
    "DESCRIBED",
    "DUMMIES",
    "FIXED",
    "FRESH",
    "LOSSES",
    "ONE_BIT",
    "PURE",
    "RATIOS",
    "SHARPER",
    "SPLIT_AND_MIX",
    "STRONG",
    "TRAINING",
    "TWO_RATIOS",
]

PURE = "every randomizer is ε₀-DP"
APPROXIMATE = "every randomizer is (ε₀, δ₀)-DP"
DESCRIBED = "the randomizer is the one described, and its outputs are shuffled as they are"
DECOMPOSES = (
    "for every two inputs x⁰, x¹ the randomizer decomposes as described, and the inequality holds for every input that "
    "another person may hold, x⁰ and x¹ included (k-ary randomized response does)"
)
RATIOS = "the victim's two distributions differ by at most e^local_epsilon, theirs and any other's by e^log_ratio"
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
ONE_BIT = (
    "Theorem O of shoal (docs/theory/one-bit.md)",
    "the randomizer is the one described, and a report is one of two values",
)
COLLUDE = (
    "if shuffler and analyst collude, nothing remains: whoever sees messages before they are shuffled sees what each "
    "person said (unless people randomize too: then the local ε₀ of their response remains)"
)
COVERS = (
    "Theorem V of shoal (docs/theory/several-messages.md)",
    (
        "every person counted in n fills all slots, each by a coin of its own and with a cover uniform on all outputs, "
        "drawn afresh and unpredictable: whoever is absent, malicious or known to whoever looks is not counted "
        "(minimum − m)",
        "the messages of all people are permuted uniformly at random, one by one and not in bundles, nothing else "
        "tells which of them came together, and the shuffler keeps silent",
        _REPLACE,
        COLLUDE,
    ),
)
DUMMIES = (
    "Theorem D of shoal (docs/theory/several-messages.md)",
    (
        "the shuffler, or at least one of several helpers, adds the dummies of every category, draws them exactly, "
        "once a round and in secret, and forgets how many they were",
        "all messages and dummies are permuted together uniformly at random, nothing else tells a dummy from a "
        "message, and the shuffler keeps silent; whoever adds dummies can subtract their own from what is published",
        _REPLACE,
        COLLUDE,
    ),
)
ANYWHERE = (
    "one malicious client can move this sum anywhere, and nothing shows it: no message is checked to be in a range; "
    "use levels unless every client is attested"
)
SPLIT_AND_MIX = (
    "Theorem M of shoal (docs/theory/several-messages.md)",
    (
        "at least H people are honest, draw their shares and messages exactly and unpredictably, and H is a constant "
        "of the task: minimum − m, never the number of people who came",
        "the messages of all people are permuted uniformly at random, one by one and not in bundles, nothing else "
        "tells which of them came together, and the shuffler keeps silent",
        _REPLACE,
        COLLUDE,
        ANYWHERE,
    ),
)
SWAP_CHAINS = "Theorem N of shoal (docs/theory/tighter.md), or Theorem S where that is below"
BLANKET = "Lemma 5.3, Balle, Bell, Gascón and Nissim, arXiv 1903.02837 (CRYPTO 2019)"
LOSSES = (
    "the sum of the privacy losses of all rounds, discretised and rounded to the safe side (docs/theory/composition.md)"
)

_CLIPPED = "the gradient of every example is clipped, and every step adds fresh normal noise to what it releases"
_ONE_EXAMPLE = "neighbouring datasets differ in one example, replaced or zeroed; none is added or removed"
_PERMUTED = "every epoch permutes the examples, and the empty slots of its last batch, uniformly and afresh"
_EPOCHS = "the number of epochs was fixed beforehand, or is the most that may be made"
_ONE_STEP = "every example joins one step of each epoch, drawn uniformly and afresh, whatever the others join"
_COINS = "every example joins every step by a coin of its own, whatever the others join"
_INDEPENDENT = (
    "neighbouring datasets differ in one example, replaced, zeroed, added or removed; who joins a step stays secret, "
    "and the number of steps, the rate and what sums are divided by do not depend on the data"
)
_SHUFFLED_RUN = (_CLIPPED, _PERMUTED, _ONE_EXAMPLE, _EPOCHS)
TRAINING = {
    "gaussian-clones": ("Theorem G, the clones of a Gaussian (docs/theory/sgd.md)", _SHUFFLED_RUN),
    "representatives": ("Theorem R, representatives of every batch (docs/theory/samplers.md)", _SHUFFLED_RUN),
    "strong-clones": (
        "the sharper theorem on approximate DP with the strong clones pair (docs/theory/approximate.md)",
        _SHUFFLED_RUN,
    ),
    "clones": (
        "the theorem on approximate DP of Feldman, McMillan and Talwar, arXiv 2012.12803, with their clones pair",
        _SHUFFLED_RUN,
    ),
    "two-ratios": (
        "the sharper theorem on approximate DP, with a ratio for one example and one for all elements "
        "(docs/theory/approximate.md)",
        _SHUFFLED_RUN,
    ),
    "allocation": (
        "Theorem A, participation that is independent of the others (docs/theory/samplers.md)",
        (_CLIPPED, _ONE_STEP, _INDEPENDENT, _EPOCHS),
    ),
    "poisson": (
        "Theorem A, participation that is independent of the others, with coins (docs/theory/samplers.md)",
        (_CLIPPED, _COINS, _INDEPENDENT, _EPOCHS),
    ),
    "plain": (
        "one Gaussian mechanism an epoch (Balle and Wang, arXiv 1805.06530), whatever the order",
        (_CLIPPED, _ONE_EXAMPLE, _EPOCHS),
    ),
}
"""Bounds of a run of noisy SGD: the theorem, and what it assumes."""
