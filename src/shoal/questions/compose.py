"""The question `compose`: the guarantee of many rounds."""

from typing import NamedTuple

import shoal
from shoal.calibration.spending import Spending, Stretch
from shoal.checks import positive, probability, whole
from shoal.composition.budget import Budget
from shoal.composition.composition_method import MOST_TIMES
from shoal.curve import PrivacyCurve
from shoal.errors import AskedError
from shoal.questions.answer import Answer
from shoal.questions.parameters import USUAL_DELTA, Count, Day, Number, Text
from shoal.questions.randomizer_choice import amplified
from shoal.questions.round_table import stretches_in

__all__ = ["Composed", "compose"]


class Composed(NamedTuple):
    """Rounds together, and one after the other."""

    curve: PrivacyCurve
    spending: Spending


def compose(
    *,
    reports: Count | None = None,
    local_epsilon: Number | None = None,
    local_delta: Number = 0.0,
    randomizer: str | None = None,
    categories: Count | None = None,
    deviation: Number | None = None,
    times: Count = 1,
    epsilon: Number | None = None,
    delta: Number = USUAL_DELTA,
    start: Day | None = None,
    every: str | None = None,
    bound: str = "tightest",
    table: Text | None = None,
    method: str = "loss",
) -> Answer:
    """Say what (ε, δ) many rounds have together, and how many of them a budget allows.

    Parameters
    ----------
    reports : int or float, optional
        How many reports are shuffled together in a round; 10_000, 1e6 and 1000000 are all fine.
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
    times : int or float
        How many such rounds there are.
    epsilon : float, optional
        A budget: say how many rounds it allows, and draw it.
    delta : float
        δ of the answer.
    start : date, optional
        The day of the first round; then the answer says on which day the budget is spent.
    every : str, optional
        How often there is a round: every day, week or month; day if not given.
    bound : str
        Which bound to use, as `shoal.explain` names it; tightest takes the best.
    table : NamedText, optional
        A CSV table of different rounds, with the columns reports and local_epsilon and, if you like, local_delta,
        randomizer, categories, deviation, times and date.
    method : str
        How rounds are added up, as `shoal.explain` names it.

    Returns
    -------
    Answer
        Its result is `Composed`: the curve of all rounds, and their spending.

    Examples
    --------
    >>> compose(reports=1e6, local_epsilon=2, times=365, epsilon=0.5).facts["affordable_rounds"]
    1676
    """
    if (table is None) == (reports is None):
        raise AskedError("give either {reports} and {local_epsilon}, with {rounds}, or different rounds in a {table}")
    if table is not None and start is not None:
        raise AskedError("the days of rounds from a file stand in its column date; leave out {start}", "start")
    if table is not None:
        stretches = stretches_in(table, bound)
    else:
        curve = amplified(
            reports=reports or 0,
            local_epsilon=local_epsilon,
            local_delta=local_delta,
            randomizer=randomizer,
            categories=categories,
            deviation=deviation,
            bound=bound,
        )
        stretches = (Stretch(curve, whole(times=times, most=MOST_TIMES), start),)
    delta = probability(delta=delta, zero=True)
    budget = None if epsilon is None else Budget(positive(epsilon=epsilon), delta, planned=True)
    if method != "loss" and budget:
        raise AskedError("how long a budget lasts, and the picture, need {method=loss}", "method")
    if every is None and start is not None:
        every = "day"
    spending = Spending(stretches, delta, budget, every)
    curve = shoal.compose([(stretch.curve, stretch.times) for stretch in stretches], method=method)
    facts = curve.to_dict(delta=delta) | spending.to_dict()
    return Answer(facts, Composed(curve, spending), lambda: curve.certify(delta=delta))
