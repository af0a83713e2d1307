"""Many rounds become one guarantee: how losses add up, and the ledger that keeps them."""
