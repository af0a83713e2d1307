"""The files of the page, read once and sent with a tag, so that a browser asks for each of them only once."""

import hashlib
import inspect
import json
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import TYPE_CHECKING, Any

from shoal.charts import STYLE
from shoal.mechanisms import kinds
from shoal.questions.question import Parameter, Question, names, question

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

TYPES = {
    "css": "text/css; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "ico": "image/x-icon",
    "js": "text/javascript; charset=utf-8",
    "json": "application/json",
    "mjs": "text/javascript; charset=utf-8",
    "png": "image/png",
    "svg": "image/svg+xml",
    "txt": "text/plain; charset=utf-8",
    "wasm": "application/wasm",
    "webmanifest": "application/manifest+json",
    "woff2": "font/woff2",
}
"""The media type of each kind of file; there is no other in the folder."""


def page_files() -> dict[str, bytes]:
    """Return the content of each file of the page, by its path from the folder of the page.

    Examples
    --------
    >>> {"charts.css", "index.html", "page.js"} <= set(page_files())
    True
    """
    made = {"charts.css": STYLE.encode(), "registry.json": json.dumps(_registry(), ensure_ascii=False).encode()}
    return made | _within(files("shoal.web") / "static", "")


def _registry() -> dict[str, Any]:
    """Return the mechanisms that a field can name, and the panels that are made from the parameters of a question."""
    parts = ("categories", "sigma", "local_epsilon")
    return {
        "categorical": list(kinds("categories", within=parts)),
        "numeric": list(kinds("lower", within=parts)),
        "panels": [_panel(question(name)) for name in names() if question(name).panel],
    }


def _panel(asked: Question) -> dict[str, Any]:
    return {
        "name": asked.name,
        "title": asked.panel,
        "about": asked.summary,
        "question": asked.name,
        "chart": asked.chart is not None,
        "file": asked.handed_over.name if asked.handed_over else None,
        "fields": [_field(each) for each in asked.parameters.values()],
    }


def _field(each: Parameter) -> dict[str, Any]:
    """Return a field of a panel, as `fields.js` takes it."""
    field = {"name": each.name, "label": each.name.replace("_", " "), "hint": each.description, "kind": "number"}
    if each.default not in (None, inspect.Parameter.empty):
        field["value"] = str(each.default).lower() if each.kind == "flag" else str(each.default)
    choices = ("false", "true") if each.kind == "flag" else each.of.choices() if each.of.choices else ()
    if choices:
        left_out = [] if each.required or "value" in field else [("", "")]
        return field | {"kind": "choice", "options": [*left_out, *((word, word) for word in choices)]}
    return field | {"kind": {"text": "lines", "day": "day", "word": "word"}.get(each.kind, "number")}


def _within(folder: Traversable, path: str) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for each in folder.iterdir():
        if each.is_dir():
            found |= _within(each, f"{path}{each.name}/")
        elif each.name.rpartition(".")[2] in TYPES:
            found[f"{path}{each.name}"] = each.read_bytes()
    return found


def sent(request: "Request", path: str, content: bytes) -> "Response":
    """Return a file, or that it has not changed."""
    from starlette.responses import Response  # which a folder of files does without

    tag = f'"{hashlib.sha256(content).hexdigest()[:24]}"'
    headers = {"etag": tag, "cache-control": "no-cache"}
    if tag in [each.strip().removeprefix("W/") for each in request.headers.get("if-none-match", "").split(",")]:
        return Response(status_code=304, headers=headers)
    return Response(content, headers=headers, media_type=TYPES[path.rpartition(".")[2]])
