"""The question `amplify`: the guarantee of one round."""

from shoal.questions.answer import Answer
from shoal.questions.parameters import USUAL_DELTA, Count, Flag, Number
from shoal.questions.randomizer_choice import amplified

__all__ = ["amplify"]


def amplify(
    *,
    reports: Count,
    local_epsilon: Number | None = None,
    local_delta: Number = 0.0,
    randomizer: str | None = None,
    categories: Count | None = None,
    deviation: Number | None = None,
    delta: Number = USUAL_DELTA,
    bound: str = "tightest",
    certify: Flag = False,
) -> Answer:
    """Say what (ε, δ) n shuffled reports have.

    Parameters
    ----------
    reports : int or float
        How many reports are shuffled together, n; 10_000, 1e6 and 1000000 are all fine.
    local_epsilon : float, optional
        ε₀ of what each person runs.
    local_delta : float
        δ₀ of what each person runs.
    randomizer : str, optional
        What each person runs, by its registered name, for a tighter answer.
    categories : int or float, optional
        Over how many categories; alone, it says randomized-response.
    deviation : float, optional
        The standard deviation of Gaussian noise on values between 0 and 1.
    delta : float
        δ of the answer.
    bound : str
        Which bound to use, as `shoal.explain` names it; tightest takes the best.
    certify : bool
        Prove the answer in ball arithmetic.

    Returns
    -------
    Answer
        Its result is the `PrivacyCurve`.

    Examples
    --------
    >>> amplify(reports=10_000, local_epsilon=1).facts["epsilon"]
    0.04095...
    """
    curve = amplified(
        reports=reports,
        local_epsilon=local_epsilon,
        local_delta=local_delta,
        randomizer=randomizer,
        categories=categories,
        deviation=deviation,
        bound=bound,
    )
    facts = curve.to_dict(delta=delta, certify=certify)
    return Answer(facts, curve, lambda: curve.certify(delta=delta))
