"""What the analyst computes: frequencies, means and distributions from counts, with errors and intervals."""
