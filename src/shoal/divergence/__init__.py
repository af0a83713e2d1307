"""A dominating pair becomes numbers: hockey-stick and Rényi divergences, their inverses, and proofs of them."""
