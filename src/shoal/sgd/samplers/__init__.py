"""The samplers that come with shoal, one a file; to import a file registers its sampler."""

from shoal.sgd.samplers import fixed_order, permutation

__all__ = ["fixed_order", "permutation"]
