"""One door to composition: many rounds, settled in advance, become one curve."""

from collections.abc import Iterable

from shoal.checks import known
from shoal.composition.composition_method import METHODS
from shoal.curve import PrivacyCurve
from shoal.lazy_names import gather

gather("shoal.composition", suffix="_accountant")


def compose(curves: Iterable[PrivacyCurve | tuple[PrivacyCurve, int]], *, method: str = "pld") -> PrivacyCurve:
    """Return the guarantee of several rounds together.

    Parameters
    ----------
    curves : iterable of PrivacyCurve or tuple of (PrivacyCurve, int)
        One for each round; or pairs (curve, times).
    method : str
        "pld" adds up the privacy losses of the rounds: tight, with a bracket. "renyi" and "advanced" are the two ways
        of the paper, through Rényi divergences and through one (ε, δ) a round; "advanced-closed-form" needs no
        numerics.

    Returns
    -------
    PrivacyCurve
        Its `local_epsilon` is the sum of those of the rounds, and its `reports` the fewest in any of them.

    Examples
    --------
    >>> import shoal
    >>> daily = shoal.amplify(local_epsilon=2, reports=1_000_000)
    >>> weekly = shoal.amplify(local_epsilon=4, reports=1_000_000)
    >>> compose([(daily, 365), (weekly, 52)])
    PrivacyCurve(ε=0.369009 at δ=1e-06, 417 rounds, n=1,000,000, pld)
    """
    return METHODS[known(tuple(METHODS), method=method)].compose(curves)
