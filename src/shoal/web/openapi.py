"""What the questions are: an OpenAPI document, made from signatures and docstrings, and the document as a page."""

import inspect
import json
import re
from html import escape
from typing import Any

import shoal
from shoal.questions.question import Parameter, Question, names, question
from shoal.web.reply import FORMS

_TYPES: dict[str, dict[str, Any]] = {
    "number": {"type": ["number", "string"], "examples": [0.5, "1e-6"]},
    "count": {"type": ["number", "string"], "examples": [10000, "10_000", "1e6"]},
    "flag": {"type": "boolean"},
    "day": {"type": "string", "format": "date"},
    "word": {"type": "string"},
}
_ERROR = {"$ref": "#/components/schemas/Error"}


def openapi() -> str:
    """Return the document as JSON, for OpenAPI 3.1.

    Examples
    --------
    >>> json.loads(openapi())["paths"]["/api/amplify"]["get"]["summary"]
    'Say what (ε, δ) n shuffled reports have.'
    """
    document = {
        "openapi": "3.1.0",
        "info": {
            "title": "shoal",
            "version": shoal.__version__,
            "description": "How much privacy people gain when their randomized reports are shuffled. The answers are "
            "what `shoal` prints with `--json`; a number that is infinite or unknown is null.",
        },
        "paths": {f"/api/{name}": _path(question(name)) for name in names()},
        "components": {
            "schemas": {
                "Error": {
                    "type": "object",
                    "required": ["error", "field"],
                    "properties": {
                        "error": {"type": "string", "description": "What is wrong and what to do, in a sentence."},
                        "field": {"type": ["string", "null"], "description": "The parameter that it is about."},
                    },
                }
            }
        },
    }
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def _path(asked: Question) -> dict[str, Any]:
    handed = asked.handed_over
    needed = handed is not None and handed.required
    methods = {} if needed else {"get": _operation(asked)}
    if handed is not None:
        body = {"text/plain": {"schema": {"type": "string"}}}
        request = {"description": handed.description, "required": needed, "content": body}
        methods["post"] = {**_operation(asked, "With a file: "), "requestBody": request}
    return methods


def _operation(asked: Question, before: str = "") -> dict[str, Any]:
    form = {
        "name": "as",
        "in": "query",
        "description": "What is wanted: the facts; code to copy, in Python and as a command; a chart as an SVG file, "
        "or one to put into a page that has /charts.css; a certificate.",
        "schema": {"type": "string", "enum": list(FORMS), "default": "facts"},
    }
    summary = f"{before}{asked.summary[:1].lower() if before else asked.summary[:1]}{asked.summary[1:]}"
    return {
        "operationId": f"{asked.name}{'-file' if before else ''}",
        "summary": summary,
        "parameters": [*(_parameter(each) for each in asked.parameters.values() if each.kind != "text"), form],
        "responses": {
            "200": {
                "description": "The answer.",
                "content": {
                    "application/json": {"schema": {"type": ["object", "array"]}},
                    "image/svg+xml": {"schema": {"type": "string"}},
                },
            },
            "400": {"description": "Wrong input.", "content": {"application/json": {"schema": _ERROR}}},
            "503": {
                "description": "It takes too long or too much memory, or too many ask.",
                "content": {"application/json": {"schema": _ERROR}},
            },
        },
    }


def _parameter(each: Parameter) -> dict[str, Any]:
    schema = dict(_TYPES[each.kind])
    if each.of.choices is not None:
        schema["enum"] = list(each.of.choices())
    if each.default not in (None, inspect.Parameter.empty):
        schema["default"] = each.default
    return {
        "name": each.name,
        "in": "query",
        "required": each.required,
        "description": each.description,
        "schema": schema,
    }


def api_page(document: str) -> str:
    """Return the page of an OpenAPI document."""
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
        parts.append(_section(path, methods))
    return "".join([*parts, "</main></body></html>\n"])


def _section(path: str, methods: dict[str, Any]) -> str:
    name = path.rpartition("/")[2]
    first = next(iter(methods.values()))
    rows = "".join(_row(each) for each in first["parameters"])
    example = ""
    if question(name).example:
        address = escape(f"{path}?{question(name).example}")
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
