"""Noisy SGD (DP-SGD): what a run guarantees with its sampler (subsampling), an accountant, and models trained by it.

Describe a `Run`, ask for its `guarantee`, let `calibrate` choose its noise, and compare with `lower_bound`, below which
nothing is true. `PrivateLogisticRegression` and `LocalLogisticRegression` train; `shoal.sgd.torch` does for PyTorch. An
`Account` is the accountant of a training, a `Filter` one for epochs that are chosen as one goes. `compare_samplers`
says by which sampler a run has the smallest ε. `Sampler`, `SAMPLERS` and `register` are for samplers of your own.
"""

import shoal.sgd.samplers  # noqa: F401  (they register themselves)
from shoal.sgd.account import Account, Filter
from shoal.sgd.bounds import Bound
from shoal.sgd.comparisons import PoissonComparison, SamplerTable, compare_samplers, poisson_comparison
from shoal.sgd.guarantees import Guarantee, calibrate, guarantee
from shoal.sgd.logistic import LocalLogisticRegression, PrivateLogisticRegression
from shoal.sgd.run import Run
from shoal.sgd.run_limits import lower_bound
from shoal.sgd.sampler import SAMPLERS, Sampler, register

__all__ = [
    "SAMPLERS",
    "Account",
    "Bound",
    "Filter",
    "Guarantee",
    "LocalLogisticRegression",
    "PoissonComparison",
    "PrivateLogisticRegression",
    "Run",
    "Sampler",
    "SamplerTable",
    "calibrate",
    "compare_samplers",
    "guarantee",
    "lower_bound",
    "poisson_comparison",
    "register",
]
