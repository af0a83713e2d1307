"""What the verbs about collection print."""

import datetime
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from shoal.cli.output import grid, print_parts
from shoal.cli.report_output import add_note, estimate_table, mechanism_text
from shoal.digits import exactly, rounded_up

_NOTHING = "nothing to count: every round that was pulled is counted"
_MARKS = {"fine": Text("fine", "green"), "note": Text("note", "yellow"), "wrong": Text("wrong", "bold red")}


def told_time(seconds: float) -> str:
    """Return a moment as text, in universal time, or a number if no calendar has it."""
    try:
        return datetime.datetime.fromtimestamp(seconds, datetime.UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (ValueError, OverflowError, OSError):
        return f"{seconds:g}"


def _bold(text: str) -> Text:
    return Text(text, style="bold")


def _span(seconds: int) -> str:
    for unit, name in ((86400, "day"), (3600, "hour"), (60, "minute"), (1, "second")):
        if seconds % unit == 0:
            return f"{seconds // unit:,} {name}{'' if seconds == unit else 's'}"
    return f"{seconds:,} seconds"


def print_keys(facts: dict[str, Any]) -> None:
    """Print which key is for whom."""
    table = grid()
    if facts["role"] == "analyst":
        table.add_row("private key", f"{facts['private_key']}, opens every report: never on the shuffler's machine")
        table.add_row("public key", f"{facts['public_key']}, for `shoal task new`")
        table.add_row("certificate", f"{facts['tls_certificate']}, for whoever runs the shuffler")
        table.add_row("its key", f"{facts['tls_key']}, for `shoal analyst pull`")
    elif facts["role"] == "helper":
        table.add_row("private key", f"{facts['private_key']}, signs dummies: it stays with the helper")
        table.add_row("public key", f"{facts['public_key']}, for `shoal task new --helper-key`")
    elif facts["role"] == "lists":
        table.add_row("private key", f"{facts['private_key']}, signs lists of prefixes: it stays with the analyst")
        table.add_row("public key", f"{facts['public_key']}, for `shoal task heavy-hitters --list-key`")
    else:
        table.add_row("private key", f"{facts['private_key']}, signs what is released: it stays with the shuffler")
        table.add_row("public key", f"{facts['public_key']}, for `shoal task new`")
        table.add_row("certificate", f"{facts['tls_certificate']}, for clients and analyst, as --ca")
        table.add_row("its key", f"{facts['tls_key']}, it stays with the shuffler")
    table.add_row("next", "once all have keys: shoal task new --analyst-key … --shuffler-key … --question …")
    print_parts(_bold(f"keys of the {facts['role']}, private ones for their owner's eyes only"), table)


def print_task(facts: dict[str, Any], *, new: bool = False) -> None:
    """Print a task with its id and what it guarantees, and what to do with a new one."""
    central, names = facts["central_at_minimum"], facts["names"]
    table = grid()
    table.add_row("id", facts["id"])
    table.add_row("file", facts["file"])
    shown = "numbers" if names is None else ", ".join(names[:8]) + (", …" if len(names) > 8 else "")
    table.add_row("categories", Text(f"{facts['mechanism']['categories']:,}: {shown}"))
    table.add_row("mechanism", mechanism_text(facts["mechanism"]))
    several = "" if facts["messages"] == 1 else f"{facts['messages']:,} messages of "
    size = f"{several}{facts['ciphertext_bytes']:,} bytes sealed"
    table.add_row("each report", f"{_local(facts)}, {size}")
    ends = {"extend": "goes on for as long again", "discard": "is discarded"}[facts["too_small"]]
    table.add_row("a round", f"{_span(facts['round_seconds'])}, at least {facts['minimum']:,} reports; else it {ends}")
    table.add_row(
        "at the minimum", f"ε = {rounded_up(central['epsilon'])} at δ = {central['delta']!r}, central guarantee"
    )
    table.add_row("malicious", _malicious(facts))
    table.add_row("collusion", _collusion(facts))
    table.add_row("published", f"only with ε ≤ {exactly(facts['epsilon_limit'])}")
    if "hunt" in facts:
        search, rounds = facts["hunt"], 1 + (facts["hunt"]["bits"] - facts["hunt"]["first"]) // facts["hunt"]["step"]
        table.add_row(
            "heavy hitters", f"{rounds} rounds, strings of {search['bits']} bits ({search['code']}); lists are signed"
        )
        table.add_row("key of lists", search["list_key"])
    if "helper_keys" in facts:
        parties, named = facts["mechanism"]["helpers"], len(facts["helper_keys"])
        who = f"{named} helper{'s' if named > 1 else ''}{' and the shuffler' if parties > named else ''}"
        table.add_row("dummies", f"of {who}; a round without those of all of them is not released")
    table.add_row("replays", f"recognised over {facts['replay_rounds']:,} rounds")
    table.add_row("analyst's key", facts["analyst_key"])
    table.add_row("shuffler's key", facts["shuffler_key"])
    for key in facts.get("helper_keys", ()):
        table.add_row("helper's key", key)
    if new:
        table.add_row(
            "next", f"tell everybody the id; shoal shuffler serve --task {facts['file']} --key shuffler.key …"
        )
    print_parts(_bold(facts["question"]), table, least=84)


def _malicious(facts: dict[str, Any]) -> Text:
    """Return what a task assumes about malicious reports; that it assumes there are none is easily overlooked."""
    text = f"{facts['fakes']:,}: the central guarantee holds only if {facts['assumes']}"
    return Text(text, "" if facts["fakes"] else "yellow")


def _local(facts: dict[str, Any]) -> str:
    """Return what each report guarantees by itself."""
    return "no ε₀" if facts["local_epsilon"] is None else f"ε₀ = {rounded_up(facts['local_epsilon'])}"


def _collusion(facts: dict[str, Any]) -> Text:
    """Return what is left if shuffler and analyst collude; that it is nothing must not be overlooked."""
    return Text(facts["collusion"], "yellow" if "nothing" in facts["collusion"] else "")


def print_verified(facts: dict[str, Any]) -> None:
    """Print that a task is the one that was pinned, and what it assumes."""
    table = grid()
    table.add_row("question", Text(facts["question"]))
    table.add_row("id", facts["id"])
    table.add_row("malicious", _malicious(facts))
    table.add_row("collusion", _collusion(facts))
    print_parts(_bold(f"{facts['file']} is the task that was pinned"), table)


def print_receipt(facts: dict[str, Any], *, token: bool = False) -> None:
    """Print what became of a report; with a token, nobody is told whether it was the first one."""
    table = grid()
    table.add_row("question", Text(facts["question"]))
    table.add_row("privacy", facts["privacy"])
    table.add_row("round ends", f"{told_time(facts['closes'])}, at the earliest")
    table.add_row("remembered in", facts["state"])
    if not facts["new"]:
        table.add_row("answer", "the first one of a round stays; another one can be given in the next round")
    sent = "sent and accepted (a token counts once a round; the first report stays)" if token else "sent and stored"
    text = sent if facts["new"] else "this round has your report already; nothing was sent"
    print_parts(_bold(f"round {facts['round']:,}: {text}"), table)


def print_helped(facts: dict[str, Any]) -> None:
    """Print to which rounds dummies were added."""
    rounds = ", ".join(f"{number:,}" for number in facts["rounds"])
    table = grid()
    table.add_row("question", Text(facts["question"]))
    table.add_row("remembered in", f"{facts['state']}, with no dummy in it" if rounds else facts["state"])
    text = f"dummies added to round {rounds}" if rounds else "no round waits for dummies"
    print_parts(_bold(text), table)


def print_listed(facts: dict[str, Any]) -> None:
    """Print the list of a round, and what all rounds have cost so far."""
    table = grid()
    table.add_row("prefixes", f"{facts['kept']:,} kept, {facts['listed']:,} to be counted, of {facts['bits']} bits")
    table.add_row("sha256", facts["sha256"])
    spent = f"ε = {rounded_up(facts['spent'])} at δ = {facts['delta']!r} with this round"
    table.add_row("ledger", f"{facts['ledger']}: {spent}")
    table.add_row("file", facts["file"])
    print_parts(
        _bold(f"round {facts['round']:,} of {facts['rounds']:,}: its list is signed, and the shuffler has it"), table
    )


def print_listening(facts: dict[str, Any]) -> None:
    """Print where the shuffler listens."""
    table = grid()
    table.add_row("question", Text(facts["question"]))
    table.add_row("task", facts["task"])
    table.add_row("analyst", facts["analyst_url"])
    table.add_row("round ends", f"{told_time(facts['closes'])}, at the earliest")
    if facts["names"]:
        table.add_row("certificate", f"is for {', '.join(facts['names'])}: reach it under such a name")
    table.add_row("next", "shoal report - --task … --shuffler https://NAME:PORT --ca shuffler-tls.crt")
    print_parts(_bold(f"listening: {facts['url']}"), table)


_OVERDUE = {
    "helpers": "it waits for the dummies of its helpers; each of them runs `shoal helper send`",
    "release": "it is not released; the log of `shoal shuffler serve` says why",
    "analyst": "the analyst has not pulled it; `shoal analyst pull` does",
}
"""What to do about a round that has waited for longer than a round lasts."""


def _rounds_table(rounds: list[dict[str, Any]]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("round", "state", "reports", "ends"):
        table.add_column(name, justify="left" if name in ("state", "ends") else "right", no_wrap=True)
    for one in rounds:
        state = "discarded" if one["discarded"] else one["state"]
        if one.get("helpers_missing") and state == "sealed":
            state = f"sealed, waits for dummies of {one['helpers_missing']} helpers"
        reports = "not shown" if one["reports"] is None else f"{one['reports']:,}"
        table.add_row(f"{one['round']:,}", state, reports, told_time(one["closes"]))
    return table


def print_rounds(facts: dict[str, Any]) -> None:
    """Print one line a round."""
    table = grid()
    if facts["trouble"] is not None:
        headline = "damaged: no report is taken, and no round is released"
        table.add_row("trouble", Text(facts["trouble"], "bold red"))
    else:
        (now,) = [one for one in facts["rounds"] if one["state"] == "open"]
        headline = f"round {now['round']:,} is open until {told_time(now['closes'])} at least"
    for one in facts["rounds"]:
        if one["overdue"] is not None:
            table.add_row("overdue", Text(f"round {one['round']:,}: {_OVERDUE[one['overdue']]}", "bold red"))
    table.add_row("minimum", f"{facts['minimum']:,} reports; a round with fewer is not released")
    print_parts(_bold(headline), _rounds_table(facts["rounds"]), table)


def print_sealed(facts: dict[str, Any]) -> None:
    """Print which rounds were released."""
    text = ", ".join(f"{one['round']:,}" for one in facts["rounds"])
    print_parts(_bold(f"released: round {text}"), _rounds_table(facts["rounds"]))


def print_purged(facts: dict[str, Any]) -> None:
    """Print which rounds were deleted."""
    text = ", ".join(f"{number:,}" for number in facts["purged"])
    print_parts(_bold(f"deleted: round {text}" if text else "nothing to delete: no round waits for it"))


def print_pulled(facts: dict[str, Any]) -> None:
    """Print which rounds have come, and which the shuffler may delete."""
    table = grid()
    text = ", ".join(f"{number:,}" for number in facts["rounds"])
    table.add_row("folder", facts["folder"])
    if facts["acknowledged"]:
        done = ", ".join(f"{number:,}" for number in facts["acknowledged"])
        table.add_row("acknowledged", f"round {done}: counted here, and deleted by the shuffler")
    if text:
        table.add_row("next", f"shoal analyst count --task … --folder {facts['folder']} --key analyst.key")
    print_parts(_bold(f"pulled: round {text}" if text else "nothing to pull: no new round is ready"), table)


def print_tallies(facts: dict[str, Any]) -> None:
    """Print how many reports of each round are valid."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("round", "received", "valid", "undecryptable", "malformed", "duplicate", "counted"):
        table.add_column(name, justify="right", no_wrap=True)
    for one in facts["rounds"]:
        why = one["invalid"]
        numbers = (one["reports_received"], one["reports_valid"], *(why[name] for name in why))
        table.add_row(f"{one['round']:,}", *(f"{number:,}" for number in numbers), "now" if one["new"] else "before")
    valid = sum(one["reports_valid"] for one in facts["rounds"])
    many = f"{len(facts['rounds']):,} round{'' if len(facts['rounds']) == 1 else 's'}"
    if facts["rounds"]:
        below = grid()
        below.add_row("next", f"shoal analyst estimate --task … --folder {facts['folder']}")
        below.add_row("", "shoal analyst pull … once more, so that the shuffler deletes them")
        print_parts(_bold(f"{valid:,} valid reports in {many}"), table, below)
    else:
        print_parts(_bold(_NOTHING))


def print_result(facts: dict[str, Any], top: list[int], files: dict[str, Path | None]) -> None:
    """Print the top categories with their intervals, how many reports they are from, and both guarantees."""
    below = grid()
    rest = len(facts["category"]) - len(top)
    if rest:
        below.add_row("", f"and {rest:,} more; --top {len(facts['category'])} or --output shows them")
    add_note(below, facts, top)
    invalid = "".join(f", {number:,} {why}" for why, number in facts["invalid"].items() if number)
    below.add_row("reports", f"{facts['reports_received']:,} received, {facts['reports_valid']:,} valid{invalid}")
    if facts["malicious_assumed"]:
        malicious = f"as {facts['malicious_assumed']:,} are taken for malicious reports or known"
        below.add_row("accounted", f"{facts['reports_accounted']:,}, {malicious}")
    below.add_row("mechanism", mechanism_text(facts["mechanism"]))
    below.add_row("local guarantee", f"{_local(facts)}, for each report by itself")
    below.add_row("collusion", _collusion(facts))
    epsilon = f"ε = {rounded_up(facts['epsilon'])} at δ = {facts['delta']!r}"
    below.add_row(
        "central guarantee", f"{epsilon} ({facts['bound']}); the task allows {exactly(facts['epsilon_limit'])}"
    )
    if facts["rounds"] > 1:
        together = facts["epsilon_of_all_rounds"]
        text = (
            "not stated, as one of them is not counted, or has fewer valid reports than the minimum, or as no ε is "
            "left at this δ"
        )
        if together is not None:
            text = (
                f"ε = {rounded_up(together)} at δ = {facts['delta']!r}, for whoever has reported in each of them, on "
                "the same conditions in each, if it was settled in advance how many there are"
            )
        below.add_row(f"all {facts['rounds']:,} rounds", text)
    below.add_row("holds", facts["holds"])
    below.add_row("theorem", facts["theorem"])
    below.add_row("task", facts["task"])
    for name, path in files.items():
        if path is not None:
            below.add_row(name, str(path))
    headline = f"{facts['question']} Round {facts['round']:,}, {facts['reports_valid']:,} reports"
    print_parts(_bold(headline), estimate_table(facts, top), below, least=84)


def print_checks(facts: dict[str, Any]) -> None:
    """Print one line a check, with the fix where there is one."""
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for one in facts["checks"]:
        text = one["result"] + (f". {one['fix']}" if one["fix"] else "")
        table.add_row(_MARKS[one["state"]], one["check"], Text(text))
    wrong = sum(one["state"] == "wrong" for one in facts["checks"])
    notes = sum(one["state"] == "note" for one in facts["checks"])
    text = "nothing is wrong" if not wrong else f"{wrong} check{'s' if wrong > 1 else ''} failed"
    print_parts(_bold(text + (f"; {notes} optional part{'s' if notes > 1 else ''} missing" if notes else "")), table)
