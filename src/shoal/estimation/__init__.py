"""Estimates of frequencies, means and distributions from counts, with errors and intervals."""
