"""Numerical methods: δ(ε) and Rényi divergences of a distribution of W, from both sides, and of their compositions."""
