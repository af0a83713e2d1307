"""Speed and tightness, as ratios measured in one run."""
