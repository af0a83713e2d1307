"""A page for each verb of the command line, from the app itself: what `shoal VERB --help` says."""

import re
from pathlib import Path
from typing import Any, cast

from cyclopts import App
from cyclopts.docs.markdown import generate_markdown_docs
from sphinx.application import Sphinx

from shoal.cli.app import loaded

_ROOT_OPTIONS = ("-", "--")


def verbs(app: App) -> dict[str, App]:
    """Return the verbs of an app by name."""
    return {name: app[name] for name in sorted(app) if not name.startswith(_ROOT_OPTIONS)}


def _group(verb: App) -> Any:
    """Return the group that a verb is listed in."""
    (group,) = cast(tuple[Any, ...], verb.group)
    return group


def _as_code(option: re.Match[str]) -> str:
    """Return an option in a sentence as code; a line of usage, and what is between backticks, is code already."""
    line = option.string[option.string.rfind("\n", 0, option.start()) + 1 : option.start()]
    return option[0] if line.startswith("shoal ") or line.count("`") % 2 else f"`{option[0]}`"


def _examples(app: App) -> str:
    """Return the example at the end of a verb's help, or of those below it."""
    text = app.help_epilogue or ""
    own = f"\n```console\n$ {text.removeprefix('Example:').strip()}\n```\n" if text.startswith("Example:") else ""
    return own + "".join(_examples(below) for below in verbs(app).values())


def _page(name: str, app: App) -> str:
    """Return the page of a verb."""
    text = generate_markdown_docs(app, command_chain=["shoal", name], generate_toc=False, usage_name="shoal")
    text = re.sub(r"(?m)^(shoal [a-z -]+?) -m sphinx", r"\1", text)  # it takes the running program for the app
    text = re.sub(r"(?<![`\w-])--[a-z][\w-]*(?= |,|;|\)|\.|$)", _as_code, text)
    examples = _examples(app)
    return text.rstrip() + "\n" + (f"\n## Examples\n{examples}" if examples else "")


def _write(app: Sphinx) -> None:
    folder = Path(app.srcdir) / "reference" / "commands"
    folder.mkdir(parents=True, exist_ok=True)
    command = loaded()
    groups: dict[Any, list[tuple[str, str]]] = {}
    for name, verb in verbs(command).items():
        (folder / f"{name}.md").write_text(_page(name, verb), encoding="utf-8")
        summary = (verb.help or "").strip().partition("\n")[0]
        groups.setdefault(_group(verb), []).append((name, summary))
    lines = ["# Command line: every verb and option", "", str(command.help), ""]
    for group in sorted(groups, key=lambda group: group.sort_key):
        lines += [f"## {group.name}", "", "| | |", "|---|---|"]
        lines += [f"| [shoal {name}]({name}.md) | {summary} |" for name, summary in groups[group]]
        lines += ["", "```{toctree}", ":hidden:", *(f"shoal {name} <{name}>" for name, _ in groups[group]), "```", ""]
    lines += ["Exit statuses, numbers and completion are [explained apart](../../command-line.md).", ""]
    (folder / "index.md").write_text("\n".join(lines), encoding="utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    """Write the pages before Sphinx looks for pages."""
    app.connect("builder-inited", _write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
