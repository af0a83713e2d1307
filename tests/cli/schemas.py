"""The JSON schemas of what the verbs print, in docs/schemas: which verb has which, and whether an output fits."""

import copy
import inspect
import json
import sys
from functools import cache
from pathlib import Path
from types import CodeType
from typing import TYPE_CHECKING, Any

from shoal.documentation import SITE
from shoal.questions.question import Question
from tests.cli.verbs import verbs

if TYPE_CHECKING:
    from jsonschema import Draft202012Validator

FOLDER = Path(__file__).parents[2] / "docs" / "schemas"


@cache
def verbs_with_json() -> dict[str, CodeType]:
    """Return the code that runs each verb that has --json, by its name; verbs that are made from questions have one."""
    found = {}
    for path, verb in verbs().items():
        if any("--json" in argument.names for argument in verb.assemble_argument_collection()):
            assert verb.default_command is not None
            found["-".join(path)] = inspect.unwrap(verb.default_command).__code__
    return found


@cache
def schemas() -> dict[str, dict[str, Any]]:
    """Return the newest schema of each verb, by its name."""
    found: dict[str, dict[str, Any]] = {}
    for path in sorted(FOLDER.glob("*.json"), key=lambda path: int(path.stem.rpartition("-")[2])):
        schema = json.loads(path.read_text(encoding="utf-8"))
        assert schema["$id"] == f"{SITE}schemas/{path.name}", path
        found[path.stem.rpartition("-")[0]] = schema
    return found


def printing() -> str | None:
    """Return the name of the verb that is running, from the code that waits for this to return."""
    frame = sys._getframe()
    while frame is not None:
        names = [name for name, code in verbs_with_json().items() if code is frame.f_code]
        if names:
            asked = frame.f_locals.get("asked")
            return asked.name if isinstance(asked, Question) else names[0]
        frame = frame.f_back  # type: ignore[assignment]
    return None


def _closed(schema: Any) -> Any:
    """Return a schema that allows no field that it does not describe: readers may, but the schemas must have all."""
    if isinstance(schema, list):
        return [_closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {key: _closed(value) for key, value in schema.items()}
    if isinstance(closed.get("properties"), dict) and "type" in closed and "additionalProperties" not in closed:
        closed["additionalProperties"] = False
    return closed


@cache
def _validator(name: str) -> "Draft202012Validator":
    from jsonschema import Draft202012Validator  # two seconds: not while tests are collected

    return Draft202012Validator(_closed(copy.deepcopy(schemas()[name])))


def check(name: str, facts: Any) -> list[str]:
    """Return what is wrong with an output of a verb."""
    plain = json.loads(json.dumps(facts))
    return [f"{error.json_path}: {error.message:.300}" for error in _validator(name).iter_errors(plain)]
