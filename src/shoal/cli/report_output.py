"""What the verbs about reports print."""

import json
from collections.abc import Sequence
from math import inf
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

import shoal
from shoal.cli.output import grid, print_parts
from shoal.composition.group_privacy import GROUP_PRIVACY, group_epsilon, multiplied
from shoal.digits import rounded_up
from shoal.errors import ParameterError
from shoal.files.person_rows import RowsPerPerson
from shoal.mechanisms.bundled import Bundled
from shoal.mechanisms.categorical import Categorical

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
    """Return the local and the central guarantee of these reports; synthetic people have no `rows`."""
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


def _guarantees(table: Table, facts: dict[str, Any]) -> None:
    central = facts["central"]
    of = f"of {facts['guarantees_of']}: " if "guarantees_of" in facts else ""
    if facts["local_epsilon"] is not None:
        table.add_row("local guarantee", f"{of}ε₀ = {rounded_up(facts['local_epsilon'])}, for each report by itself")
    epsilon, delta = rounded_up(central["epsilon"]), central["delta"]
    table.add_row("central guarantee", f"{of}ε = {epsilon} at δ = {delta!r}, {central['holds']} ({central['bound']})")
    _rows(table, facts)
    _remaining(table, facts)
    if "remains_if_colluding" in facts:
        # Of several rounds, the first is about rounds; what hides people in each of them comes next, and first here.
        several = central["rounds"] > 1
        table.add_row("needs", "\n".join(central["assumptions"][1::-1] if several else central["assumptions"][:1]))


def _rows(table: Table, facts: dict[str, Any]) -> None:
    """Add the number of rows of a person, and ε₀ of all of them together if there are several."""
    if "rows" in facts:
        several = facts["rows_per_person"] > 1 and facts["local_epsilon_per_person"] is not None
        local = f"; before the shuffle ε₀ = {rounded_up(facts['local_epsilon_per_person'])}" if several else ""
        table.add_row("rows", f"{facts['rows']}{local}")


def _remaining(table: Table, facts: dict[str, Any]) -> None:
    """Say what is left if shuffler and analyst collude, where messages hide one another."""
    if "remains_if_colluding" in facts:
        remains = facts["remains_if_colluding"]
        table.add_row("collusion", f"if shuffler and analyst collude, what remains is {remains}")


def mechanism_text(schema: dict[str, Any]) -> str:
    """Return a mechanism with its parameters, in words."""
    values = {name: value for name, value in schema.items() if name not in ("mechanism", "version")}
    return ", ".join([schema["mechanism"], *(f"{name} = {json.dumps(value)}" for name, value in values.items())])


def _condition(table: Table, facts: dict[str, Any]) -> None:
    if "condition" in facts:
        table.add_row("condition", facts["condition"])


def print_written(facts: dict[str, Any]) -> None:
    """Print how many reports went into a file."""
    table = grid()
    table.add_row("mechanism", mechanism_text(facts["mechanism"]))
    size = facts["bytes_per_report"]
    unit = "byte" if size == 1 else "bytes"
    local = "" if facts["local_epsilon"] is None else f", ε₀ = {rounded_up(facts['local_epsilon'])}"
    several = f"{facts['messages_per_report']} messages of " if "messages_per_report" in facts else ""
    table.add_row("each report", f"{several}{size} {unit}{local}")
    _rows(table, facts)
    if "rows_left_out" in facts:
        table.add_row("left out", f"{facts['rows_left_out']:,} further rows of the same people")
    _remaining(table, facts)
    if "local_epsilon_asked" in facts:
        table.add_row(
            "less than asked",
            f"ε₀ = {facts['local_epsilon_asked']:g} was asked for; with coins of 64 bits this mechanism has at most "
            f"ε₀ = {rounded_up(facts['local_epsilon'])}: more private, and with more noise",
        )
    _condition(table, facts)
    if "once" in facts:
        table.add_row("dummies", facts["once"])
    if facts.get("next"):
        table.add_row("next", facts["next"])
    print_parts(Text(f"{facts['reports']:,} reports: {facts['output']}", style="bold"), table)


def print_aggregate(facts: dict[str, Any]) -> None:
    """Print what a count file holds."""
    table = grid()
    table.add_row("mechanism", mechanism_text(facts["mechanism"]))
    _rows(table, facts)
    _condition(table, facts)
    _remaining(table, facts)
    table.add_row("next", f"shoal estimate {facts['output']}")
    print_parts(Text(f"{facts['reports']:,} reports added up: {facts['output']}", style="bold"), table)


def estimate_table(facts: dict[str, Any], top: list[int]) -> Table:
    """Return the top categories with their errors and intervals."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("category", overflow="fold")
    for name in ("frequency", "± error", f"{100 * facts['confidence']:g} % interval"):
        table.add_column(name, justify="right", no_wrap=True)
    for index in top:
        table.add_row(
            Text(str(facts["category"][index])),
            f"{facts['frequency'][index]:.5f}",
            f"{facts['standard_error'][index]:.5f}",
            f"{facts['lower'][index]:.5f} – {facts['upper'][index]:.5f}",
        )
    return table


def add_note(table: Table, facts: dict[str, Any], top: list[int]) -> None:
    """Say why a frequency that is shown is outside its interval, if one is."""
    low, result, high = (facts[name] for name in ("lower", "frequency", "upper"))
    if facts["note"] is not None and any(not low[index] <= result[index] <= high[index] for index in top):
        table.add_row("note", facts["note"])


def print_estimate(facts: dict[str, Any], top: list[int], files: dict[str, Path | None]) -> None:
    """Print the top categories with their intervals, and where all of this comes from."""
    rest = len(facts["category"]) - len(top)
    below = grid()
    if rest:
        below.add_row("", f"and {rest:,} more; --top {len(facts['category'])} or --output shows them")
    add_note(below, facts, top)
    below.add_row("mechanism", mechanism_text(facts["mechanism"]))
    if facts["on_simplex"]:
        below.add_row("projected", "onto the distributions; errors and intervals are those of the unbiased estimate")
    _guarantees(below, facts)
    if "warning" in facts:
        below.add_row("not shuffled", facts["warning"])
    for name, path in files.items():
        if path is not None:
            below.add_row(name, str(path))
    print_parts(Text(f"{facts['reports']:,} reports", style="bold"), estimate_table(facts, top), below)


def print_simulation(facts: dict[str, Any], picture: Path | None) -> None:
    """Print the measured error and the closed form."""
    spread = facts["squared_error_standard_error"]
    table = grid()
    table.add_row("mechanism", mechanism_text(facts["mechanism"]))
    table.add_row(
        "squared error",
        f"{facts['squared_error']:.4g}" + (f" ± {spread:.2g}" if spread is not None else "") + ", measured",
    )
    ratio = "" if facts["ratio"] is None else f"; measured / closed form = {facts['ratio']:.3f}"
    table.add_row("closed form", f"{facts['squared_error_closed_form']:.4g}{ratio}")
    table.add_row(
        "coverage", f"{100 * facts['coverage']:.2f} % of the {100 * facts['confidence']:g} % intervals hold the truth"
    )
    _guarantees(table, facts)
    table.add_row("not private", facts["warning"])
    table.add_row("coins", f"from the seed {facts['seed']}: for simulation only, real reports never have one")
    if picture is not None:
        table.add_row("picture", str(picture))
        if facts["note"] is not None:
            table.add_row("note", facts["note"])
    trials = f"{facts['trials']:,} trial{'' if facts['trials'] == 1 else 's'}"
    print_parts(
        Text(f"{trials} with {facts['reports']:,} people, {facts['categories']:,} categories", style="bold"), table
    )


def _intervals(facts: dict[str, Any], *names: str) -> Table:
    """Return a table of these results, and of the quartiles, with their intervals."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("")
    for name in ("estimate", *(("± error",) if names else ()), f"{100 * facts['confidence']:g} % interval"):
        table.add_column(name, justify="right", no_wrap=True)
    named = {"0.25": "lower quartile", "0.5": "median", "0.75": "upper quartile"}
    rows = {name: facts[name] for name in names}
    for name, row in (rows | {named[share]: each for share, each in facts["quantiles"].items()}).items():
        error = row.get("standard_error")
        errors = ("" if error is None else f"{error:.3g}",) if names else ()
        table.add_row(name, f"{row['value']:.7g}", *errors, f"{row['lower']:.7g} – {row['upper']:.7g}")
    return table


def _at_each_depth(depths: list[dict[str, Any]]) -> str:
    """Return the mechanism of all depths, with the parameters that they have in common, and those that differ."""
    if len(depths) == 1:
        return mechanism_text(depths[0])
    parts = []
    for name in depths[0]:
        if name == "epsilon":
            each = list(dict.fromkeys(rounded_up(one[name]) for one in depths))
            parts.append(f"ε = {', '.join(each)}{' each' if len(each) == 1 else ''}")
        elif name not in ("mechanism", "version", "categories"):
            parts.append(f"{name} = {', '.join(dict.fromkeys(_value_text(one[name]) for one in depths))}")
    counts = [f"{one['categories']:,}" for one in depths]
    of = f"{', '.join(counts[:-1])} and {counts[-1]} categories"
    return ", ".join([f"{depths[0]['mechanism']} at each depth ({of})", *parts])


def _value_text(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else "none" if value is None else str(value)


def print_quantiles(facts: dict[str, Any]) -> None:
    """Print the quartiles with their intervals, the tree, and what hides people."""
    below = grid()
    depths = facts["protocols"]
    nodes = ", ".join(f"{each['categories']:,}" for each in depths)
    tree = f"{facts['leaves']:,} leaves from {facts['lower']:g} to {facts['upper']:g}"
    below.add_row("tree", f"{tree}; nodes at each depth: {nodes}")
    below.add_row("mechanism", _at_each_depth(depths))
    below.add_row("error", f"± {facts['error']:.3g} people below a point, on average over all")
    _guarantees(below, facts)
    below.add_row("one malicious person", f"can move the people below a point by {facts['influence']:,} at most")
    for name in ("table", "picture"):
        if facts[name] is not None:
            below.add_row(name, facts[name])
    print_parts(Text(f"{facts['reports']:,} people", style="bold"), _intervals(facts), below)


def print_sum(facts: dict[str, Any]) -> None:
    """Print the sum, the mean and the quartiles with their intervals, and what hides people."""
    table = _intervals(facts, "sum", "mean")
    below = grid()
    below.add_row("mechanism", mechanism_text(facts["protocol"]))
    below.add_row("levels", f"{facts['protocol']['categories']:,} from {facts['lower']:g} to {facts['upper']:g}")
    _guarantees(below, facts)
    below.add_row("one malicious person", f"can move the sum by {facts['influence']:.3g} at most")
    for name in ("table", "picture"):
        if facts[name] is not None:
            below.add_row(name, facts[name])
    print_parts(Text(f"{facts['reports']:,} people", style="bold"), table, below)
