"""Mechanisms by name: what a schema says, and back."""

from collections.abc import Mapping
from typing import Any

from shoal.checks import known
from shoal.errors import ParameterError
from shoal.randomizers.categorical import Categorical
from shoal.randomizers.gaussian import Gaussian
from shoal.randomizers.hadamard_response import HadamardResponse
from shoal.randomizers.laplace import Laplace
from shoal.randomizers.local_hashing import LocalHashing
from shoal.randomizers.mean import MeanMechanism
from shoal.randomizers.mechanism import Mechanism
from shoal.randomizers.one_bit_mean import OneBitMean
from shoal.randomizers.private_independent_rappor import PrivateIndependentRappor
from shoal.randomizers.projective_geometry_response import ProjectiveGeometryResponse
from shoal.randomizers.randomized_response import RandomizedResponse
from shoal.randomizers.recursive_hadamard_response import RecursiveHadamardResponse
from shoal.randomizers.subset_selection import SubsetSelection
from shoal.randomizers.unary_encoding import Rappor, UnaryEncoding

__all__ = ["MECHANISMS", "NUMERIC", "mechanism"]

MECHANISMS: dict[str, type[Categorical]] = {
    kind.name: kind
    for kind in (
        HadamardResponse,
        LocalHashing,
        PrivateIndependentRappor,
        ProjectiveGeometryResponse,
        RandomizedResponse,
        Rappor,
        RecursiveHadamardResponse,
        SubsetSelection,
        UnaryEncoding,
    )
}
"""The mechanisms for one of k categories."""

NUMERIC: dict[str, type[MeanMechanism]] = {kind.name: kind for kind in (Gaussian, Laplace, OneBitMean)}
"""The mechanisms for a number in an interval."""


def mechanism(schema: Mapping[str, Any]) -> Any:
    """Return the mechanism that a schema describes.

    Examples
    --------
    >>> mechanism({"mechanism": "randomized-response", "categories": 10, "local_epsilon": 2})
    RandomizedResponse(categories=10, local_epsilon=2.0)
    """
    if not isinstance(schema, Mapping):
        raise ParameterError(f"a schema names a mechanism and its parameters, got {schema!r}")
    rest = dict(schema)
    kinds: dict[str, type[Mechanism]] = {**MECHANISMS, **NUMERIC}
    kind = kinds[known(tuple(kinds), mechanism=rest.pop("mechanism", None))]
    try:
        return kind(**rest)
    except TypeError:
        raise ParameterError(f"{kind.name} has other parameters than {', '.join(map(str, rest)) or 'none'}") from None
