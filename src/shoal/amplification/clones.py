"""The paper's reduction (Theorem 3.2) and its stronger relative: everybody is a clone of the victim now and then."""

from shoal.pairs import ClonePair, Family

__all__ = ["clones"]


def clones(family: Family, *, reports: int, local_epsilon: float) -> ClonePair:
    """Return the clones pair (p = e^−ε₀) or the stronger one (p = 2/(e^ε₀ + 1)).

    Theorem 3.2, arXiv 2012.12803v3, and Theorem S, docs/theory/strong-clones.md.
    """
    return ClonePair(reports, local_epsilon, family)
