"""Private training in PyTorch: any module, clipped example by example, by any sampler of `shoal.sgd`.

`make_private` returns a `Training`, which yields a `Batch` for every step, or trains by `fit`; its accountant is an
`shoal.sgd.Account`.
"""

from shoal.errors import MissingExtraError

try:
    from shoal.sgd.torch.examples import Batch
    from shoal.sgd.torch.make_private import make_private
    from shoal.sgd.torch.training import Training
except ModuleNotFoundError as error:
    if error.name != "torch":
        raise
    raise MissingExtraError('training a network needs PyTorch: pip install "shoal-dp[torch]"') from None

__all__ = ["Batch", "Training", "make_private"]
