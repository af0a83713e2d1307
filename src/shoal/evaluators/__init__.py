"""What a distribution of W gives at one ε: δ(ε) from both sides, the Rényi divergence, proofs in ball arithmetic."""
