"""The verb `calibrate`: the question backwards."""

from functools import partial
from typing import Any

import shoal
from shoal.cli.app import GUARANTEES, app
from shoal.cli.options import Bound, Count, CurveOutput, Number, described
from shoal.cli.output import print_guarantee
from shoal.errors import ParameterError

__all__ = ["calibrate"]


@app.command(group=GUARANTEES, help_epilogue="Example:  shoal calibrate --epsilon 1 --reports 10_000")
def calibrate(
    *,
    epsilon: Number,
    delta: Number = 1e-6,
    reports: Count | None = None,
    local_epsilon: Number | None = None,
    randomizer: str | None = None,
    categories: Count | None = None,
    bound: Bound = "tightest",
    output: CurveOutput = CurveOutput(),
) -> None:
    """Find the largest local ε₀ for these reports, or the fewest reports for this ε₀.

    Parameters
    ----------
    epsilon
        the central ε that must hold.
    delta
        the δ that goes with it.
    reports
        how many reports there are, to get the largest ε₀.
    local_epsilon
        ε₀ of what each person runs, to get the fewest reports.
    randomizer
        for a better answer: a mechanism as for `shoal amplify`, but gaussian.
    categories
        over how many categories; alone, it says randomized-response.
    """
    if (reports is None) == (local_epsilon is None):
        raise ParameterError("give either --reports (to get the largest ε₀) or --local-epsilon (to get the reports)")
    wanted: dict[str, Any] = {"local_epsilon": local_epsilon}
    if randomizer is not None or categories is not None:
        wanted = described(randomizer, local_epsilon or 1.0, categories, None)
    answer = shoal.calibrate(**wanted, epsilon=epsilon, delta=delta, reports=reports, bound=bound)
    result = f"reports = {answer.reports:,}" if reports is None else f"local_epsilon = {answer.local_epsilon!r}"
    output.show(answer.to_dict(), partial(print_guarantee, headline=result), [answer.curve], delta)
