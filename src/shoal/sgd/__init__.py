"""Noisy SGD over a permutation: what a run guarantees, and models that are trained by it."""

from shoal.sgd.account import Account
from shoal.sgd.bounds import Bound
from shoal.sgd.epoch_filter import Filter
from shoal.sgd.guarantees import Guarantee, guarantee
from shoal.sgd.local import LocalLogisticRegression
from shoal.sgd.logistic import PrivateLogisticRegression
from shoal.sgd.noise_calibration import calibrate
from shoal.sgd.poisson import PoissonComparison, poisson_comparison
from shoal.sgd.run import Run
from shoal.sgd.run_limits import lower_bound

__all__ = [
    "Account",
    "Bound",
    "Filter",
    "Guarantee",
    "LocalLogisticRegression",
    "PoissonComparison",
    "PrivateLogisticRegression",
    "Run",
    "calibrate",
    "guarantee",
    "lower_bound",
    "poisson_comparison",
]
