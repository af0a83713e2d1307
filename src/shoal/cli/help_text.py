"""The help of a verb: its own words, and for the parameters that its question has, those of the question."""

import inspect
import re
from collections.abc import Callable
from typing import TypeVar

from shoal.questions.question import question

__all__ = ["asking"]

_Verb = TypeVar("_Verb", bound=Callable[..., object])
_SECTION = "Parameters\n----------\n"


def asking(name: str) -> Callable[[_Verb], _Verb]:
    """Return a decorator that describes the parameters of a verb, or of a group of options, as a question does.

    Parameters
    ----------
    name
        the question; what the verb itself says of a parameter comes first.
    """

    def described(verb: _Verb) -> _Verb:
        own, said = inspect.cleandoc(verb.__doc__ or ""), question(name).parameters
        known = set(re.findall(r"(?m)^(\w+)$", own.partition(_SECTION)[2]))
        lines = [
            f"{each}\n    {_as_typed(said[each].description)}"
            for each in inspect.signature(verb).parameters
            if each in said and each not in known
        ]
        if lines:
            head = own if _SECTION in own else f"{own}\n\n{_SECTION}".rstrip("\n")
            verb.__doc__ = "\n".join([head, *lines])
        return verb

    return described


def _as_typed(text: str) -> str:
    """Return a description with the names of options, beginning as help begins.

    Examples
    --------
    >>> _as_typed("The deviation, in units of clip_norm; with adjacency = add-remove, ε.")
    'the deviation, in units of --clip-norm; with --adjacency add-remove, ε.'
    """
    text = re.sub(r"\b([a-z_]+) = (?=\w)", lambda match: f"--{match[1]} ", text)
    text = re.sub(r"(--)?\b[a-z]+(_[a-z]+)+\b", lambda match: f"--{match[0].lstrip('-').replace('_', '-')}", text)
    return text[0].lower() + text[1:] if text[1:2].islower() or text[1:2] == " " else text
