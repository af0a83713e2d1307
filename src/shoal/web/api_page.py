"""The page that shows what can be asked: plain HTML from the OpenAPI document."""

import json
import re
from html import escape
from typing import Any

from shoal.web.openapi import EXAMPLES

__all__ = ["api_page"]


def api_page(document: str) -> str:
    """Return the page of an OpenAPI document.

    Parameters
    ----------
    document : str
        The document, as JSON.
    """
    content = json.loads(document)
    info = content["info"]
    parts = [
        '<!doctype html><html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<title>shoal: questions</title><link rel="stylesheet" href="/api.css"></head><body><main>',
        f"<h1>What can be asked of shoal {escape(info['version'])}</h1><p>{_words(info['description'])}</p>",
        "<p>Wrong input is answered with status 400 and <code>{&quot;error&quot;: …, &quot;field&quot;: …}</code>, ",
        "what takes too long or too much memory with 503. The same as a document for programs: ",
        '<a href="/api/openapi.json">openapi.json</a>. <a href="/">The page</a> asks nothing else.</p>',
    ]
    for path, methods in content["paths"].items():
        parts.append(_path(path, methods))
    return "".join([*parts, "</main></body></html>\n"])


def _path(path: str, methods: dict[str, Any]) -> str:
    name = path.rpartition("/")[2]
    first = next(iter(methods.values()))
    rows = "".join(_row(each) for each in first["parameters"])
    example = ""
    if name in EXAMPLES:
        address = escape(f"{path}?{EXAMPLES[name]}")
        example = f'<p>Example: <a href="{address}"><code>{address}</code></a></p>'
    file = ""
    if "post" in methods:
        body = methods["post"]["requestBody"]
        file = f"<p>By <code>POST</code>, the body is a file, as text: {_words(body['description'])}</p>"
    words = " and ".join(f"<code>{method.upper()} {escape(path)}</code>" for method in methods)
    head = '<tr><th scope="col">parameter</th><th scope="col">value</th><th scope="col">what it is</th></tr>'
    return (
        f'<section id="{escape(name)}"><h2>{escape(name)}</h2><p>{words}: {escape(first["summary"])}</p>{example}{file}'
        f"<table><thead>{head}</thead><tbody>{rows}</tbody></table></section>"
    )


def _row(each: dict[str, Any]) -> str:
    schema = each["schema"]
    kind = "number" if isinstance(schema["type"], list) else schema.get("format", schema["type"])
    if "enum" in schema:
        kind = " | ".join(schema["enum"])
    needed = ", needed" if each.get("required") else ""
    usual = f", {schema['default']} if not given" if "default" in schema else ""
    cells = (f"<code>{escape(each['name'])}</code>", escape(f"{kind}{needed}{usual}"), _words(each["description"]))
    return f"<tr><td>{'</td><td>'.join(cells)}</td></tr>"


def _words(text: str) -> str:
    """Return a description as HTML, with what is in backquotes as code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))
