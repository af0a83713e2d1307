"""The OpenAPI document of the questions, made from their signatures and docstrings."""

import inspect
import json
from collections.abc import Callable, Sequence
from typing import Any

import shoal
from shoal.amplification.amplify import proven_bounds
from shoal.catalogue import KINDS
from shoal.composition.composition_method import METHODS
from shoal.mechanisms import kinds
from shoal.questions.question import NAMES, Parameter, Question, question
from shoal.sgd.sampler import SAMPLERS
from shoal.web.reply import FORMS

__all__ = ["EXAMPLES", "openapi"]

EXAMPLES = {
    "amplify": "reports=10_000&local_epsilon=1",
    "attack": "reports=10_000&local_epsilon=1&false_alarms=0.01",
    "calibrate": "epsilon=1&reports=10_000",
    "compare": "reports=1e6&local_epsilon=4",
    "compose": "reports=1e6&local_epsilon=2&times=365&epsilon=0.5",
    "curve": "reports=10_000&local_epsilon=1&against=delta",
    "explain": "name=strong-clones",
    "plan": "categories=100&reports=1e5&epsilon=0.5",
    "rounds": "reports=1e6&local_epsilon=2&times=30",
    "sgd": "examples=60_000&batch_size=64&noise_multiplier=0.8",
}
"""A question of each kind that needs no file."""
_TYPES: dict[str, dict[str, Any]] = {
    "number": {"type": ["number", "string"], "examples": [0.5, "1e-6"]},
    "count": {"type": ["number", "string"], "examples": [10000, "10_000", "1e6"]},
    "flag": {"type": "boolean"},
    "day": {"type": "string", "format": "date"},
    "word": {"type": "string"},
}
_CHOICES: dict[str, Callable[[], Sequence[str]]] = {
    "adjacency": lambda: ("replace", "zero-out", "add-remove"),
    "against": lambda: ("reports", "delta", "local_epsilon"),
    "bound": proven_bounds,
    "kind": lambda: tuple(KINDS),
    "method": lambda: tuple(METHODS),
    "noise": lambda: ("batch", "example"),
    "randomizer": lambda: tuple(kinds(within=("categories", "deviation", "local_epsilon"))),
    "releases": lambda: ("every-step", "sums"),
    "sampling": lambda: tuple(SAMPLERS),
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
        "paths": {f"/api/{name}": _path(question(name)) for name in NAMES},
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
    if each.name in _CHOICES and each.kind == "word":
        schema["enum"] = list(_CHOICES[each.name]())
    if each.default not in (None, inspect.Parameter.empty):
        schema["default"] = each.default
    return {
        "name": each.name,
        "in": "query",
        "required": each.required,
        "description": each.description,
        "schema": schema,
    }
