"""Dominating pairs: two distributions of the shuffled reports that no two neighbouring datasets exceed."""
