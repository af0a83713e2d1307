"""The question `calibrate`: the question backwards."""

from typing import Any

import shoal
from shoal.errors import AskedError
from shoal.questions.copied_code import call, opened, runs, taken, target
from shoal.questions.parameters import BoundName, Count, LedgerText, Number, usual_delta
from shoal.questions.question import Answer, asks
from shoal.questions.setting import RandomizerName, Setting


def _python(given: dict[str, Any]) -> list[str]:
    named = {"randomizer", "categories"} & given.keys()
    asked = runs({"local_epsilon": 1.0, **given}) if named else taken(given, "local_epsilon")
    asked += taken(given, "epsilon", "reports", "rounds", "bound")
    if {"reports", "local_epsilon"} <= given.keys():
        asked.append('solve_for="rounds"')
    return [*opened(given), f"print({call('shoal.calibrate', *asked, *target(given))})"]


@asks(example="epsilon=1&reports=10_000", python=_python, quick=True)
def calibrate(
    *,
    epsilon: Number | None = None,
    delta: Number | None = None,
    reports: Count | None = None,
    local_epsilon: Number | None = None,
    rounds: Count | None = None,
    randomizer: RandomizerName | None = None,
    categories: Count | None = None,
    bound: BoundName = "tightest",
    ledger: LedgerText | None = None,
) -> Answer:
    """Find the largest local ε₀ for these reports, the fewest reports for this ε₀, or the most rounds for both.

    Parameters
    ----------
    epsilon : float, optional
        The central ε that must hold for all rounds together.
    delta : float, optional
        The δ that goes with it; that of the ledger's budget if not given, or 1e-6.
    reports : int or float, optional
        How many reports there are in a round, to get the largest ε₀.
    local_epsilon : float, optional
        ε₀ of what each person runs, to get the fewest reports; with reports as well, the most rounds.
    rounds : int or float, optional
        How many rounds there are; 1 if not given.
    randomizer : str, optional
        For a better answer, what each person runs: a mechanism as for `amplify`, but gaussian.
    categories : int or float, optional
        Over how many categories; alone, it says randomized-response.
    bound : str
        Which bound to use, as `shoal.explain` names it; tightest takes the best.
    ledger : Ledger, optional
        What was released about the same people before: what is left of its budget is the target.

    Returns
    -------
    Answer
        Its result is the `Calibration`.

    Examples
    --------
    >>> calibrate(epsilon=0.1, local_epsilon=2).facts["reports"]
    12875
    """
    if (reports is None and local_epsilon is None) or None not in (reports, local_epsilon, rounds):
        raise AskedError(
            "give either {reports} (to get the largest ε₀) or {local_epsilon} (to get the reports), with {rounds}; or "
            "both of them without {rounds} (to get the number of rounds)"
        )
    wanted: dict[str, Any] = {"local_epsilon": local_epsilon}
    if randomizer is not None or categories is not None:
        setting = Setting(randomizer=randomizer, local_epsilon=local_epsilon or 1.0, categories=categories)
        wanted = setting.described()
    result = shoal.calibrate(
        **wanted,
        epsilon=epsilon,
        delta=usual_delta(delta, ledger),
        reports=reports,
        rounds=rounds,
        solve_for=None if None in (reports, local_epsilon) else "rounds",
        bound=bound,
        ledger=ledger,
    )
    return Answer(result.to_dict(), result)
