"""The facts that the verbs about reports print: what was written, and which guarantees hold for it."""

from collections.abc import Sequence
from math import inf
from pathlib import Path
from typing import Any

import shoal
from shoal.composition.group_privacy import GROUP_PRIVACY, group_epsilon, multiplied
from shoal.errors import ParameterError
from shoal.frequency.person_rows import RowsPerPerson
from shoal.randomizers import Bundled, Categorical

__all__ = ["NOT_PRIVATE", "check_exists", "given", "guaranteed", "guaranteed_together", "in_order", "written"]

_SEEN = "to whoever sees the reports only shuffled together, or added up"
_ONCE = "if each person is in one of them only"
_NOTICED = 1e-6
"""A share of ε by which shuffling must lower it to be called amplification."""
NOT_PRIVATE = {
    "guarantees_of": "real reports made with this mechanism",
    "private": False,
    "warning": "this output itself is not private: it contains the truth, or is computed from it",
}


def check_exists(data: Path | None) -> None:
    """Refuse a data file that does not exist, before anything else is read."""
    if data is not None and not data.exists():
        raise ParameterError(f"{data} does not exist; give a CSV or Parquet file")


def given(paths: Sequence[Path], verb: str) -> list[Path]:
    """Return the files, or refuse a command that names none."""
    if not paths:
        raise ParameterError(f"shoal {verb} needs a file, such as reports.shoal. Try: shoal {verb} --help")
    return list(paths)


def written(
    mechanism: Categorical, reports: int, output: Path, rows: RowsPerPerson, batches: Sequence[str] = ()
) -> dict[str, Any]:
    """Return what is in a file of reports or counts."""
    condition = f"these are {len(batches):,} batches: the central guarantee of all together holds {_ONCE}"
    return {
        "output": str(output),
        "reports": reports,
        "mechanism": mechanism.to_dict(),
        **_local(mechanism),
        **_of_rows(rows, mechanism.local_epsilon),
        "bytes_per_report": mechanism.bytes_per_report,
        **({"condition": condition} if len(batches) > 1 else {}),
    }


def guaranteed(
    mechanism: Categorical, reports: int, delta: float, batches: Sequence[str] = (), *, rows: RowsPerPerson | None
) -> dict[str, Any]:
    """Return the local and the central guarantee of these reports.

    Parameters
    ----------
    mechanism : Categorical
        What made the reports.
    reports : int
        n.
    delta : float
        δ of the central guarantee.
    batches : sequence of str
        That the reports come from.
    rows : RowsPerPerson, optional
        How many of the reports one person has at most; None for synthetic people.
    """
    several = f"reports of these {len(batches):,} batches"
    holds = f"{_SEEN.replace('reports', several)}, {_ONCE}" if len(batches) > 1 else _SEEN
    central = _central(shoal.amplify(mechanism, reports=reports), delta, rows)
    own = {} if rows is None else _of_rows(rows, mechanism.local_epsilon)
    return {**_local(mechanism), **own, "central": central | {"holds": holds}}


def guaranteed_together(
    protocols: Sequence[Bundled], reports: int, delta: float, *, rows: RowsPerPerson
) -> dict[str, Any]:
    """Return the guarantee of reports that the same people make with each of these protocols."""
    curves = [shoal.amplify(each, reports=reports) for each in protocols]
    central = _central(shoal.compose(curves) if len(curves) > 1 else curves[0], delta, rows)
    messages = {"messages_per_report": sum(each.bundle for each in protocols)}
    own = _of_rows(rows, protocols[0].local_epsilon)
    return {**_local(protocols[0]), **messages, **own, "central": central | {"holds": _SEEN}}


def _central(curve: shoal.PrivacyCurve, delta: float, rows: RowsPerPerson | None) -> dict[str, Any]:
    """Return the central guarantee for all reports of one person, with what is assumed of the table."""
    facts = curve.to_dict(delta=delta)
    if rows is None:
        return facts
    if rows.most > 1:
        epsilon = group_epsilon(curve, rows_per_person=rows.most, delta=delta)
        facts["epsilon"] = epsilon
        facts["epsilon_bracket"] = None  # the curve knows the exact ε of one report only
        facts["best_possible"] = None
        facts["theorem"] = f"{facts['theorem']}; {GROUP_PRIVACY}"
        facts["amplified"] = epsilon < rows.most * curve.local_epsilon * (1 - _NOTICED)
    if not rows.checked:
        facts["assumptions"] = [*facts["assumptions"], rows.sentence]
    return facts


def _of_rows(rows: RowsPerPerson, local_epsilon: float) -> dict[str, Any]:
    """Return how many rows a person has, whether that was checked, and ε₀ of all of them together."""
    together = multiplied(local_epsilon, rows.most)
    return {
        "rows_per_person": rows.most,
        "person_checked": rows.checked,
        "rows": rows.sentence,
        "local_epsilon_per_person": together if together < inf else None,
    }


def _local(mechanism: Categorical) -> dict[str, Any]:
    """Return what a person has before the shuffle; with several messages, what remains if all others collude."""
    finite = mechanism.local_epsilon if mechanism.local_epsilon < inf else None
    if mechanism.private_alone:
        return {"local_epsilon": finite}
    several = {"messages_per_report": mechanism.bundle} if mechanism.bundle > 1 else {}
    return {"local_epsilon": finite, "remains_if_colluding": mechanism.remains, **several}


def in_order(mechanism: Categorical, paths: Sequence[Path], alone: bool) -> str:
    """Return the warning that reports have not been shuffled."""
    reports = "these reports" if alone else f"the reports in {', '.join(map(str, paths))}"
    files, them = ("this file", "it") if len(paths) == 1 else ("these files", "them")
    left = "has only the local guarantee" if mechanism.local_epsilon < inf else "sees what each person said"
    return (
        f"{reports} are in the order of the people: whoever sees {files} {left}; shuffle {them}, or pass on the counts "
        "alone"
    )
