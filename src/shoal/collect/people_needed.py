"""How many people a round takes to keep its limit, for mechanisms of one message a person and of several."""

import shoal
from shoal.errors import ParameterError
from shoal.mechanisms import Categorical
from shoal.mechanisms.bundled import Bundled

__all__ = ["people_needed"]

_MOST = 1 << 33


def people_needed(mechanism: Categorical, *, epsilon: float, delta: float) -> int:
    """Return how many people, all of whom take part as they should, a round takes to be (ε, δ)-private.

    Parameters
    ----------
    mechanism : Categorical
        What each of them runs.
    epsilon, delta : float
        What is to be kept.

    Examples
    --------
    >>> from shoal.mechanisms import Covered
    >>> people_needed(Covered(categories=100, slots=1, fill=0.1361), epsilon=0.5, delta=1e-6)
    99993
    """
    if not isinstance(mechanism, Bundled):
        return int(shoal.calibrate(mechanism, epsilon=epsilon, delta=delta).reports)

    def kept(people: int) -> bool:
        return bool(shoal.amplify(mechanism, reports=people).epsilon(delta) <= epsilon)

    # More people tell less: the covers of one more are post-processing, and dummies do not depend on them.
    enough = 1
    while not kept(enough):
        if enough >= _MOST:
            raise ParameterError(f"with {mechanism!r} no number of people has ε = {epsilon:g} at δ = {delta:g}")
        enough *= 2
    few = enough // 2
    while enough - few > 1:
        middle = (few + enough) // 2
        few, enough = (few, middle) if kept(middle) else (middle, enough)
    return enough
