"""Privacy loss distributions (PLD) on a grid, from above and from below, and their convolution over rounds."""
