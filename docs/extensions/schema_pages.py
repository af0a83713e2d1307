"""The page of JSON schemas: which verb prints what, field by field; and the schemas themselves, at their addresses."""

import json
from pathlib import Path
from shutil import copytree
from typing import Any

from sphinx.application import Sphinx

from shoal.documentation import SITE

_SCHEMAS = Path(__file__).parents[1] / "schemas"


def _kind(schema: dict[str, Any]) -> str:
    """Return the type of a field, in words."""
    kinds = schema.get("type", "object")
    return " or ".join([kinds] if isinstance(kinds, str) else kinds)


def _fields(schema: dict[str, Any], before: str = "") -> list[str]:
    """Return the rows of a table: the fields of an object, and of the objects in it."""
    rows = []
    for name, field in schema.get("properties", {}).items():
        needed = "" if name in schema.get("required", ()) else " (not always)"
        rows.append(
            f"| `{before}{name}` | {_kind(field)}{needed} | {field['description'].replace('|', chr(92) + '|')} |"
        )
        rows += _fields(field, f"{before}{name}.")
        rows += _fields(field.get("items", {}), f"{before}{name}[].")
    return rows


def _section(path: Path) -> list[str]:
    """Return the section of a verb."""
    schema = json.loads(path.read_text(encoding="utf-8"))
    table = (
        _fields(schema) + _fields(schema.get("items", {}), "[].") + _fields(schema.get("$defs", {}).get("theorem", {}))
    )
    title = schema["title"].removesuffix(" --json")
    lines = [f"## {title}", "", f"[{path.name}]({SITE}schemas/{path.name})", ""]
    if not table:
        return [*lines, f"An {_kind(schema)} of {_kind(schema.get('items', {}))}s.", ""]
    return [*lines, "| field | type | |", "|---|---|---|", *table, ""]


def _write(app: Sphinx) -> None:
    page = Path(app.srcdir) / "reference" / "schemas.md"
    lines = [line for path in sorted(_SCHEMAS.glob("*.json")) for line in _section(path)]
    page.write_text(page.read_text(encoding="utf-8") + "\n" + "\n".join(lines), encoding="utf-8")


def _copy(app: Sphinx, error: Exception | None) -> None:
    if error is None:
        copytree(_SCHEMAS, Path(app.outdir) / "schemas", dirs_exist_ok=True)


def setup(app: Sphinx) -> dict[str, bool]:
    """Complete the page before Sphinx reads it, and copy the schemas when the site is done."""
    app.connect("builder-inited", _write)
    app.connect("build-finished", _copy)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
