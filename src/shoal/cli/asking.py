"""Verbs that have the parameters of a question as options: their signature, their help and what they print."""

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from functools import partial, update_wrapper
from pathlib import Path
from typing import Any, TypeVar

from cyclopts import Parameter

from shoal.cli.files import CertificateFile, LedgerOption, certified, opened, text_of
from shoal.cli.options import Bound, Count, Flag, Json, Method, Number, RandomizerName, Rounds
from shoal.cli.output import print_answer, show
from shoal.cli.pictures import check_plot, draw, save_plot
from shoal.curve import BoundTable, PrivacyCurve
from shoal.questions.parameters import USUAL_DELTA, ledger_in
from shoal.questions.question import Answer, Question, question
from shoal.questions.question import Parameter as Asked
from shoal.questions.setting import Setting

_Verb = TypeVar("_Verb", bound=Callable[..., object])
_SECTION = "Parameters\n----------\n"
_BY_KIND: dict[str, Any] = {"number": Number, "count": Count, "flag": Flag, "day": date, "word": str, "text": Path}
_BY_NAME: dict[str, Any] = {"bound": Bound, "ledger": LedgerOption, "method": Method, "rounds": Rounds}
"""Parameters whose options have a help text, a name or a reader that the question cannot know."""


def asking(name: str) -> Callable[[_Verb], _Verb]:
    """Return a decorator that describes the options of a verb, or of a group of options, as a question does.

    A verb whose first parameter is `asked` gets the parameters of the question as options in its place, and is called
    with their values as a dict, files opened.
    """

    def described(verb: _Verb) -> _Verb:
        asked = question(name)
        if next(iter(inspect.signature(verb).parameters)) == "asked" and not inspect.isclass(verb):
            verb = _forwarding(asked, verb)
        _describe(asked, verb)
        return verb

    return described


def _describe(asked: Question, verb: Any) -> None:
    """Add what the question says of a parameter to the docstring of a verb, where that says nothing."""
    own = inspect.cleandoc(verb.__doc__ or "")
    known = set(re.findall(r"(?m)^(\w+)$", own.partition(_SECTION)[2]))
    lines = [
        f"{each}\n    {_as_typed(asked.parameters[each].description)}"
        for each in inspect.signature(verb).parameters
        if each in asked.parameters and each not in known
    ]
    if lines:
        head = own if _SECTION in own else f"{own}\n\n{_SECTION}".rstrip("\n")
        verb.__doc__ = "\n".join([head, *lines])


def _as_typed(text: str) -> str:
    """Return a description with the names of options, beginning as help begins.

    Examples
    --------
    >>> _as_typed("The standard deviation, in units of clip_norm; with adjacency = add-remove, ε.")
    'the standard deviation, in units of --clip-norm; with --adjacency add-remove, ε.'
    """
    text = re.sub(r"\b([a-z_]+) = (?=\w)", lambda match: f"--{match[1]} ", text)
    text = re.sub(r"(--)?\b[a-z]+(_[a-z]+)+\b", lambda match: f"--{match[0].lstrip('-').replace('_', '-')}", text)
    return text[0].lower() + text[1:] if text[1:2].islower() or text[1:2] == " " else text


def _forwarding(asked: Question, verb: Any) -> Any:
    """Return a verb that has the parameters of a question instead of its first one, `asked`."""

    def forwarded(*first: Any, **given: Any) -> Any:
        given |= dict(zip([asked.first], first, strict=False))
        values = {name: _opened(each, given.pop(name)) for name, each in asked.parameters.items() if name in given}
        return verb(values, **given)

    update_wrapper(forwarded, verb)
    _, *own = inspect.signature(verb).parameters.values()
    options = [_option(asked, each) for each in asked.parameters.values()] + own
    options.sort(key=lambda each: each.kind)
    forwarded.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
    forwarded.__annotations__ = {each.name: each.annotation for each in options}
    return forwarded


def _option(asked: Question, each: Asked) -> inspect.Parameter:
    """Return the option of a parameter."""
    hint = _BY_NAME.get(each.name) or _BY_KIND[each.kind]
    if each.name == "randomizer" and each.group:
        hint = RandomizerName
    elif each.default is None:
        hint = hint | None
    named = each.name == asked.first
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD if named else inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(each.name, kind, default=each.default, annotation=hint)


def _opened(each: Asked, value: Any) -> Any:
    """Return the value of an option, as the question takes it: what a file has, instead of its path."""
    if each.kind != "text" or value is None:
        return value
    return opened(value) if each.of.read is ledger_in else text_of(value)


def verb_of(asked: Question) -> Callable[..., None]:
    """Return a verb that asks a question, and prints the answer as JSON or as a table."""

    def answered(
        given: dict[str, Any], *, certificate: CertificateFile = None, json: Json = False, plot: Path | None = None
    ) -> None:
        check_plot(plot)
        certify = given.pop("certify", False) or certificate is not None
        answer = asked(**given)
        facts = answer.facts
        if certify:
            facts |= certified(answer, certificate)
        picture = None if plot is None else _drawn(asked, answer, given, plot)
        show(facts, partial(print_answer, answer.result), json=json, picture=picture)

    verb = _forwarding(asked, answered)
    left_out = {"certificate": "certify" not in asked.parameters, "plot": asked.chart is None}
    parameters = [each for name, each in inspect.signature(verb).parameters.items() if not left_out.get(name)]
    verb.__signature__ = inspect.Signature(parameters)
    verb.__name__ = asked.name
    verb.__doc__ = f"{asked.about}\n\n{_SECTION}plot\n    draw {asked.drawn} into this file (.png, .svg, .pdf)."
    _describe(asked, verb)
    return verb  # type: ignore[no-any-return]


def _drawn(asked: Question, answer: Answer, given: dict[str, Any], plot: Path) -> Path | None:
    """Draw the answer, and return the path of the picture: ε against δ of curves, else the chart of the question."""
    if isinstance(answer.result, (PrivacyCurve, BoundTable)):
        curves = [answer.result] if isinstance(answer.result, PrivacyCurve) else answer.result
        return draw(plot, curves, given.get("delta", USUAL_DELTA))
    assert asked.chart is not None
    return save_plot(plot, asked.chart(answer, given))


@Parameter(name="*")
@asking("amplify")
@dataclass(frozen=True, kw_only=True)
class LocalRandomizer(Setting):
    """What each person runs."""

    local_epsilon: Number | None = None
    local_delta: Number = 0.0
    randomizer: RandomizerName = None
    categories: Count | None = None
    sigma: Number | None = None
