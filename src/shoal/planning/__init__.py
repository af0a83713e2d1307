"""Plans: which mechanism, with which parameters and rounds, estimates best under a central guarantee."""
