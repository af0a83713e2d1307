"""The option `--sampling` of the verbs about training: it names the samplers, and only they import them."""

from typing import Annotated

from cyclopts import Parameter

from shoal.sgd.sampler import SAMPLERS

__all__ = ["Sampling"]

Sampling = Annotated[
    str | None,
    Parameter(
        metavar="NAME",
        help="how the steps of an epoch are drawn (subsampling): "
        + "; ".join(f"{sampler.name}, {sampler.description}" for sampler in SAMPLERS.values())
        + ".",
    ),
]
