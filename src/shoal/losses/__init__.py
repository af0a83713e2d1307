"""Privacy loss distributions on a grid, from above and from below, and their convolution over rounds."""
