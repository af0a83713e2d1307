"""A question by its name: its parameters, their text read into values, and what its docstring says of each."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import import_module
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from shoal.checks import known
from shoal.errors import AskedError, ParameterError
from shoal.numerals import count_in, number_in
from shoal.questions.answer import Answer
from shoal.questions.parameters import day_in, flag_in, ledger_in, text_in

__all__ = ["NAMES", "Parameter", "Question", "question"]

NAMES = (
    "amplify",
    "attack",
    "calibrate",
    "compare",
    "compose",
    "curve",
    "explain",
    "ledger",
    "plan",
    "rounds",
    "sgd",
    "verify",
)
"""All questions; each is a function in the file of its name."""

_KINDS: dict[Any, str] = {
    number_in: "number",
    count_in: "count",
    flag_in: "flag",
    day_in: "day",
    text_in: "text",
    ledger_in: "text",
}
_MOST_LETTERS = 200
"""Of a value that stands in an address."""


@dataclass(frozen=True)
class Parameter:
    """A parameter of a question.

    Attributes
    ----------
    name : str
        As in Python.
    kind : str
        number, count, flag, day or word; or text, for a file that is handed over.
    read : callable
        Returns the value that a text has; its arguments are the text and the name.
    default : object
        The value if none is given; `inspect.Parameter.empty` if one is needed.
    description : str
        What the docstring says of it, on one line.
    """

    name: str
    kind: str
    read: Callable[[str, str], Any]
    default: Any
    description: str

    @property
    def required(self) -> bool:
        """Whether it has to be given."""
        return self.default is inspect.Parameter.empty


@dataclass(frozen=True)
class Question:
    """A question, as those see it who only have texts.

    Attributes
    ----------
    name : str
        Its name, one of `NAMES`.
    function : callable
        What answers it.
    """

    name: str
    function: Callable[..., Answer]

    @cached_property
    def parameters(self) -> dict[str, Parameter]:
        """The parameters by name, in their order."""
        hints = get_type_hints(self.function, include_extras=True)
        said = _sections(inspect.getdoc(self.function) or "")
        return {
            name: Parameter(name, *_kind(hints[name]), each.default, said.get(name, ""))
            for name, each in inspect.signature(self.function).parameters.items()
        }

    @cached_property
    def handed_over(self) -> Parameter | None:
        """The parameter that is the text of a file, if there is one."""
        return next((each for each in self.parameters.values() if each.kind == "text"), None)

    @property
    def summary(self) -> str:
        """The first sentence of the docstring."""
        return (inspect.getdoc(self.function) or "").partition("\n")[0]

    def read(self, texts: Mapping[str, str], body: str | None = None) -> dict[str, Any]:
        """Return the arguments that texts describe.

        Parameters
        ----------
        texts : Mapping
            Names and values as they were typed.
        body : str, optional
            The text of a file, for the parameter that takes one.

        Raises
        ------
        ParameterError
            For a name that there is not, a value that is none, or one that is missing; its `parameter` is the name.

        Examples
        --------
        >>> question("amplify").read({"reports": "10_000", "local_epsilon": "1"})
        {'reports': 10000.0, 'local_epsilon': 1.0}
        """
        arguments = {}
        for name, text in texts.items():
            known(tuple(name for name, each in self.parameters.items() if each.kind != "text"), parameter=name)
            if len(text) > _MOST_LETTERS:
                raise ParameterError(
                    f"{name} must have at most {_MOST_LETTERS} letters, got {len(text):,}", parameter=name
                )
            arguments[name] = self.parameters[name].read(text, name)
        if body is not None:
            taken = self.handed_over
            if taken is None:
                raise ParameterError(f"{self.name} takes no file, only parameters in the address")
            arguments[taken.name] = taken.read(body, "the file")
        for name, each in self.parameters.items():
            if each.required and name not in arguments:
                raise AskedError(f"{self.name} needs {{{name}}} with a value", name)
        return arguments

    def field(self, error: Exception) -> str | None:
        """Return the parameter that an error is about, if it is about one.

        Parameters
        ----------
        error : Exception
            What `read` or the function raised.
        """
        name = error.parameter if isinstance(error, ParameterError) else None
        return name if name in self.parameters else None


def _word_in(text: str, _: str) -> str:
    return text


def _kind(hint: Any) -> tuple[str, Callable[[str, str], Any]]:
    """Return the kind of a parameter with this annotation, and how it is read."""
    for each in (hint, *get_args(hint)):
        if get_origin(each) is Annotated:
            (read,) = each.__metadata__
            return _KINDS[read], read
    return "word", _word_in


def _sections(docstring: str) -> dict[str, str]:
    """Return what a docstring in numpydoc's layout says of each parameter, on one line."""
    _, _, rest = docstring.partition("Parameters\n----------\n")
    said: dict[str, str] = {}
    names: list[str] = []
    for line in rest.splitlines():
        if line.startswith("-") or (not line and not names):
            break
        if line and not line.startswith(" "):
            names = [name.strip() for name in line.partition(" :")[0].split(",")]
            continue
        for name in names:
            said[name] = f"{said.get(name, '')} {line.strip()}".strip()
    return said


@cache
def question(name: str) -> Question:
    """Return the question of this name.

    Parameters
    ----------
    name : str
        One of `NAMES`.

    Examples
    --------
    >>> question("amplify").summary
    'Say what (ε, δ) n shuffled reports have.'
    """
    known(NAMES, question=name)
    return Question(name, getattr(import_module(f"shoal.questions.{name}"), name))
