"""A randomizer and n reports become a dominating pair, and the pair a curve of guarantees."""
