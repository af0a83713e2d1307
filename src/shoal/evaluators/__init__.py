"""Hockey-stick divergences δ(ε) of a distribution of W, from both sides, Rényi divergences, and proofs of δ(ε)."""
