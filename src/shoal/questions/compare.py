"""The question `compare`: every bound that applies."""

import shoal
from shoal.questions.answer import Answer
from shoal.questions.parameters import USUAL_DELTA, Count, Number
from shoal.questions.randomizer_choice import described

__all__ = ["compare"]


def compare(
    *,
    reports: Count,
    local_epsilon: Number | None = None,
    local_delta: Number = 0.0,
    randomizer: str | None = None,
    categories: Count | None = None,
    deviation: Number | None = None,
    delta: Number = USUAL_DELTA,
) -> Answer:
    """List every bound that applies, the tightest first, and what no bound can beat.

    Parameters
    ----------
    reports : int or float
        How many reports are shuffled together, n; 10_000, 1e6 and 1000000 are all fine.
    local_epsilon : float, optional
        ε₀ of what each person runs.
    local_delta : float
        δ₀ of what each person runs.
    randomizer : str, optional
        What each person runs, by its registered name, for tighter answers.
    categories : int or float, optional
        Over how many categories; alone, it says randomized-response.
    deviation : float, optional
        The standard deviation of Gaussian noise on values between 0 and 1.
    delta : float
        δ of the answers.

    Returns
    -------
    Answer
        Its result is what `shoal.compare` returns.
    """
    kind = described(randomizer, local_epsilon, categories, deviation)
    curves = shoal.compare(**kind, local_delta=local_delta, reports=reports, delta=delta)
    return Answer([curve.to_dict(delta=delta) for curve in curves], curves)
