"""What the verbs print: a short table for people, JSON for programs."""

import json
import math
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console, RenderableType
from rich.table import Column, Table
from rich.text import Text

from shoal.catalogue import KINDS, Theorem
from shoal.curve import BoundTable, PrivacyCurve
from shoal.digits import exactly, input_down, input_up, rounded_down, rounded_up
from shoal.documentation import SITE, linked

_PAGE = re.compile(rf"(?:(Theorem \w+)( of shoal))? \(({re.escape(SITE)}[^\s()]+)\)")


class Rows(Table):
    """A table whose cells name theorems only: the addresses of their pages are for below, where none is broken."""

    def __init__(self, *headers: Column | str, **options: Any) -> None:
        """Begin with no page."""
        super().__init__(*headers, **options)
        self.pages: dict[str, list[str]] = {}

    def add_row(self, *cells: RenderableType | None, **options: Any) -> None:
        """Add a row, and remember the pages that its cells name in brackets."""
        super().add_row(*(_PAGE.sub(self._kept, cell) if isinstance(cell, str) else cell for cell in cells), **options)

    def _kept(self, match: re.Match[str]) -> str:
        names = self.pages.setdefault(match[3], [])
        if match[1] and match[1] not in names:
            names.append(match[1])
        return f"{match[1]}{match[2]}" if match[1] else ""


def print_parts(*parts: Text | Table, least: int = 60) -> None:
    """Print without the blanks with which tables are filled up to the margin, and no narrower than `least`.

    The pages that rows name are below, a line each, which is as long as it is: an address that is broken leads nowhere.
    """
    console = Console(highlight=False)
    console.width = max(console.width, least)
    with console.capture() as capture:
        for part in parts:
            console.print(part)
    print("\n".join(line.rstrip() for line in capture.get().splitlines()))
    pages: dict[str, list[str]] = {}
    for part in parts:
        for page, names in part.pages.items() if isinstance(part, Rows) else ():
            pages[page] = list(dict.fromkeys([*pages.get(page, ()), *names]))
    for page, names in pages.items():
        print(f"{', '.join(names) or 'see'}: {page}")


def grid() -> Table:
    """Return an empty table of names and values."""
    table = Rows(box=None, padding=(0, 2), collapse_padding=True, show_header=False, show_edge=False, pad_edge=False)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    return table


def _reports(facts: dict[str, Any]) -> str:
    return f"{facts['reports']:,} shuffled report{'s' if facts['reports'] > 1 else ''}"


def _local(facts: dict[str, Any]) -> str:
    if facts["local_epsilon"] is None:
        return str(facts["randomizer"])
    # The sum over several rounds is a guarantee, and rounded up; that of one report is typed again.
    rounded = input_up if facts.get("rounds", 1) > 1 else input_down
    return f"ε₀ = {rounded(facts['local_epsilon'])}" + (
        f", δ₀ = {facts['local_delta']:g}" if facts["local_delta"] else ""
    )


def print_json(facts: Any) -> None:
    """Print plain values as JSON."""
    plain = not (sys.stdout.encoding or "").lower().startswith("utf")
    print(json.dumps(facts, indent=2, ensure_ascii=plain))


def show(facts: Any, table: Callable[[Any], None], *, json: bool, picture: Path | None = None) -> None:
    """Print the facts as JSON for a program, or as a table for a person, with the path of the picture."""
    if json:
        print_json(facts)
        return
    table(facts)
    if picture is not None:
        print(f"picture: {picture}")


def fixed_in_advance(rounds: int) -> tuple[str, str]:
    """Return the row on which the sum of several rounds rests."""
    return "assumes", f"all {rounds:,} rounds are fixed in advance, whatever they release"


def print_guarantee(facts: dict[str, Any], headline: str | None = None, more: Sequence[tuple[str, str]] = ()) -> None:
    """Print the guarantee, then more about it if there is more to say, then where it comes from."""
    guarantee = f"ε = {rounded_up(facts['epsilon'])} at δ = {facts['delta']!r}"
    title = Text(headline or guarantee, style="bold")
    table = grid()
    if headline:
        table.add_row("guarantee", guarantee)
    if facts["rounds"] > 1:
        table.add_row("setting", f"{facts['rounds']:,} rounds of at least {_reports(facts)}, together {_local(facts)}")
    else:
        table.add_row("setting", f"{_reports(facts)}, each {_local(facts)}")
    if facts["randomizer"] is not None and facts["local_epsilon"] is not None:
        table.add_row("randomizer", facts["randomizer"])
    for name, text in more:
        table.add_row(name, text)
    if not facts["amplified"]:
        alone = "this ε is not below that of one report alone by more than a millionth"
        table.add_row("amplified", f"no amplification: {alone}")
    if facts["epsilon_bracket"] is not None:
        lower, upper = facts["epsilon_bracket"]
        table.add_row("exact value", f"between {rounded_down(lower, 9)} and {rounded_up(upper, 9)}")
    if facts["best_possible"] is not None:
        table.add_row("best possible", f"{rounded_down(facts['best_possible'])} (no bound can go below)")
    table.add_row("bound", facts["bound"])
    table.add_row("theorem", facts["theorem"])
    table.add_row("assumes", "\n".join(facts["assumptions"]))
    if facts["certified"]:
        path = facts.get("certificate")
        table.add_row("certified", "proved in ball arithmetic" + (f": {path}" if path else ""))
    print_parts(title, table)


def print_table(rows: Sequence[dict[str, Any]]) -> None:
    """Print one line per bound, the tightest first, then the best possible, and what the bounds assume."""
    first = rows[0]
    setting = f"{_reports(first)}, each {_local(first)}; δ = {first['delta']!r}"
    table = Rows(box=None, pad_edge=False, header_style="dim")
    table.add_column("bound", no_wrap=True)
    table.add_column("ε", justify="right", no_wrap=True)
    table.add_column("theorem", overflow="fold")
    for row in rows:
        worth = "" if row["proven"] else "comparison only, no guarantee: "
        table.add_row(
            row["bound"],
            rounded_up(row["epsilon"]),
            worth + row["theorem"].split(";")[0],
            style="" if row["proven"] else "dim",
        )
    if first["best_possible"] is not None:
        table.add_row(
            "(best possible)",
            rounded_down(first["best_possible"]),
            "no bound can go below: real inputs reach it",
            style="dim",
        )
    bounds: dict[str, list[str]] = {}
    proven = [row for row in rows if row["proven"]]
    for row in proven:
        for assumption in row["assumptions"]:
            bounds.setdefault(assumption, []).append(row["bound"])
    lines = (
        assumption if len(names) == len(proven) else f"{assumption} ({', '.join(names)})"
        for assumption, names in bounds.items()
    )
    below = grid()
    below.add_row("assumes", "\n".join(lines))
    print_parts(Text(setting, style="bold"), table, below)


def print_answer(result: Any, facts: Any) -> None:
    """Print the answer of a question: a guarantee, a table of bounds, theorems, or names with their values."""
    if isinstance(result, PrivacyCurve):
        print_guarantee(facts)
    elif isinstance(result, BoundTable):
        print_table(facts)
    elif isinstance(result, tuple) and all(isinstance(row, Theorem) for row in result):
        print_theorems(result) if isinstance(facts, list) else print_theorem(result[0])
    else:
        table = grid()
        for name, value in facts.items():
            table.add_row(name.replace("_", " "), str(value))
        print_parts(table)


def print_theorem(row: Theorem) -> None:
    """Print one row of the catalogue."""
    table = grid()
    for title, text in row.described().items():
        table.add_row(title, text)
    print_parts(Text(row.name, style="bold"), table, least=78)


def print_theorems(rows: Sequence[Theorem]) -> None:
    """Print one line for each row of the catalogue, under what it is about."""
    parts: list[Text | Table] = []
    for kind, about in KINDS.items():
        table = grid()
        for row in rows:
            if row.kind == kind:
                table.add_row(row.name, ("" if row.proven else "comparison only: ") + linked(row.citation))
        if table.row_count:
            parts += [Text(about, style="bold"), table]
    print_parts(*parts)


def print_ledger(facts: dict[str, Any]) -> None:
    """Print one line an entry, and what all of them have cost."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("time", "label", "rounds"):
        table.add_column(name, overflow="fold")
    for entry in facts["entries"]:
        text = (
            f"{part['times']:,} × (n={part['reports']:,}, ε₀={input_down(_local_epsilon(part))}, {part['bound']})"
            for part in entry["rounds"]
        )
        table.add_row(entry["time"], entry["label"], " + ".join(text))
    count = sum(part["times"] for entry in facts["entries"] for part in entry["rounds"])
    spent = f"{count:,} round{'' if count == 1 else 's'}: ε = {rounded_up(facts['spent'])} at δ = {facts['delta']!r}"
    parts: list[Text | Table] = [Text(spent, style="bold")]
    if budget := facts["budget"]:
        how = "fixed in advance" if budget["planned"] else "chosen adaptively"
        counted = facts["counted"]
        parts.append(Text(f"budget: ε = {exactly(budget['epsilon'])} at δ = {budget['delta']!r}, for rounds {how}"))
        if counted is not None and not budget["planned"]:
            parts.append(
                Text(
                    f"counted against the budget: {rounded_up(counted)}. This is more than the cost of "
                    f"{rounded_up(facts['spent'])}, because later rounds may be chosen by earlier results. A ledger "
                    "that is begun with --planned, for rounds fixed in advance, counts the cost alone"
                )
            )
        if counted is None or counted > budget["epsilon"]:
            parts.insert(0, Text("OVER BUDGET: more was recorded than the budget allows", style="bold red"))
    if lasts := facts.get("lasts"):
        parts.append(Text(lasts))
    if facts.get("certificate"):
        parts.append(Text(f"proved in ball arithmetic: {facts['certificate']}"))
    print_parts(*parts, table)


def _local_epsilon(part: dict[str, Any]) -> float:
    """Return ε₀ of a round of a ledger, which its randomizer has where there is one; infinite for Gaussian noise."""
    known: dict[str, Any] = part.get("randomizer", part)
    return float(known.get("local_epsilon", math.inf))
