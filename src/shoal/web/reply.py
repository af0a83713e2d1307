"""The reply to a question that came over the network: a status, a media type, and bytes."""

import json
import math
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shoal.checks import known
from shoal.errors import NoPairError, ParameterError, ShoalError
from shoal.questions.copied_code import code_of
from shoal.questions.question import Question, names, question

JSON, SVG = "application/json", "image/svg+xml"
FORMS = ("facts", "code", "svg", "inline", "certificate")
"""What can be asked for: the facts, code to copy, a chart as a file or to be put into the page, and a proof."""


@dataclass(frozen=True)
class Reply:
    """What is sent back.

    Attributes
    ----------
    status : int
        Of HTTP: 200; 400 for wrong input; 503 where it takes too much; 500 for a defect of shoal.
    media_type : str
        What the body is.
    body : bytes
        All of it.
    """

    status: int
    media_type: str
    body: bytes


def _json(value: Any) -> bytes:
    return json.dumps(_finite(value), ensure_ascii=False, allow_nan=False).encode("utf-8", errors="replace")


def _finite(value: Any) -> Any:
    """Return plain values with nothing where a number is infinite or none, which JSON does not have."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return value


def refusal(status: int, message: str, field: str | None = None) -> Reply:
    """Return a reply that says what is wrong."""
    return Reply(status, JSON, _json({"error": " ".join(message.split()), "field": field}))


def answered(name: str, texts: Mapping[str, str], body: str | None, form: str) -> Reply:
    """Return the reply to a question, whatever was asked.

    Examples
    --------
    >>> answered("amplify", {"reports": "ten"}, None, "facts").body.decode()[:60]
    '{"error": "reports must be a number such as 10000, 10_000, 1'
    """
    asked = question(name)
    try:
        known(FORMS, **{"as": form})
        arguments = asked.read(texts, body)
        return _formed(asked, arguments, form)
    except ShoalError as error:
        return refusal(400, str(error), asked.field(error))
    except (MemoryError, RecursionError):
        return refusal(503, f"{name} with these values takes more memory than there is; ask for something smaller")
    except Exception as error:
        traceback.print_exc()
        return refusal(500, f"a defect of shoal: {type(error).__name__}; the terminal that it runs in says more")


def _formed(asked: Question, arguments: dict[str, Any], form: str) -> Reply:
    if form == "code":
        return Reply(200, JSON, _json(code_of(asked, arguments)))
    draw = asked.chart
    if form in ("svg", "inline") and draw is None:
        drawn = [name for name in names() if question(name).chart is not None]
        raise ParameterError(f"{asked.name} has no chart; {', '.join(drawn)} have")
    answer = asked(**arguments)
    if form == "facts":
        return Reply(200, JSON, _json(answer.facts))
    if form == "certificate":
        if answer.certify is None:
            raise NoPairError(f"{asked.name} has no certificate; amplify, compose, ledger and sgd have")
        return Reply(200, JSON, answer.certify().to_json().encode())
    assert draw is not None
    return Reply(200, SVG, draw(answer, arguments).svg(style=form == "svg").encode())
