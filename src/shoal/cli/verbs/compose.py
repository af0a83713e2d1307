"""The verb `compose`: the guarantee of many rounds."""

from datetime import date, timedelta
from functools import partial
from pathlib import Path

import shoal
from shoal.calibration.spending import Spending, Stretch
from shoal.checks import positive, probability, whole
from shoal.cli.app import GUARANTEES, app
from shoal.cli.certificates import CertificateFile, certified
from shoal.cli.options import Bound, Count, Json, LocalRandomizer, Method, Number
from shoal.cli.output import print_guarantee, show
from shoal.cli.pictures import check_plot, save_plot
from shoal.cli.round_table import stretches_in
from shoal.composition.budget import Budget
from shoal.composition.composition_method import MOST_TIMES
from shoal.errors import ParameterError

__all__ = ["compose"]


@app.command(
    group=GUARANTEES,
    help_epilogue="Example:  shoal compose --local-epsilon 2 --reports 1e6 --times 365 --epsilon 0.5 --plot year.png",
)
def compose(
    *,
    reports: Count | None = None,
    local: LocalRandomizer = LocalRandomizer(),
    times: Count = 1,
    epsilon: Number | None = None,
    delta: Number = 1e-6,
    start: date | None = None,
    bound: Bound = "tightest",
    rounds: Path | None = None,
    method: Method = "loss",
    certificate: CertificateFile = None,
    json: Json = False,
    plot: Path | None = None,
) -> None:
    """Say what (ε, δ) many rounds have together, and how many of them a budget allows.

    Parameters
    ----------
    reports
        how many reports are shuffled together in a round.
    times
        how many such rounds there are.
    epsilon
        a budget: say how many rounds it allows, and draw it.
    delta
        δ of the answer.
    start
        the day of the first round, if there is one a day; then the answer says on which day the budget is spent.
    rounds
        a CSV file of different rounds, with the columns reports and local_epsilon and, if you like, local_delta,
        randomizer, categories, deviation, times and date.
    plot
        draw ε against the number of rounds into this file (.png, .svg, .pdf), with the budget as a line.
    """
    check_plot(plot)
    if (rounds is None) == (reports is None):
        raise ParameterError("give either --reports and --local-epsilon, with --times, or a file of --rounds")
    if rounds is not None and start is not None:
        raise ParameterError("the days of rounds from a file stand in its column date; leave out --start")
    if rounds is not None:
        stretches = stretches_in(rounds, bound)
    else:
        stretches = (Stretch(local.amplify(reports or 0, bound), whole(times=times, most=MOST_TIMES), start),)
    delta = probability(delta=delta, zero=True)
    budget = None if epsilon is None else Budget(positive(epsilon=epsilon), delta, planned=True)
    if method != "loss" and (budget or plot):
        raise ParameterError("how long a budget lasts, and the picture, need --method loss")
    spending = Spending(stretches, delta, budget, None if start is None else timedelta(days=1))
    curve = shoal.compose([(stretch.curve, stretch.times) for stretch in stretches], method=method)
    facts = curve.to_dict(delta=delta) | spending.to_dict()
    if certificate is not None:
        facts |= certified(lambda: curve.certify(delta=delta), certificate)
    picture = None if plot is None else save_plot(plot, spending.plot(), inputs=() if rounds is None else (rounds,))
    more = [("budget", spending.sentence)] if spending.sentence else []
    show(facts, partial(print_guarantee, more=more), json=json, picture=picture)
