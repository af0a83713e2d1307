"""Questions: a function with keyword arguments, and all that a user interface has to know of it.

The functions are in the files of `shoal.questions`, each of which `asks` its question, and nothing else lists them.
"""

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import cache, cached_property, update_wrapper
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin, get_type_hints
from urllib.parse import parse_qsl

from shoal import questions
from shoal.checks import known
from shoal.errors import AskedError, ParameterError
from shoal.questions.parameters import Kind

if TYPE_CHECKING:
    from shoal.charts import Chart
    from shoal.proofs.certificate import Certificate

_WORD = Kind("word", lambda text, _: text)
_MOST_LETTERS = 200
"""Of a value that stands in an address."""


@dataclass(frozen=True)
class Answer:
    """The answer to a question.

    Attributes
    ----------
    facts : dict or list
        Plain values, as `--json` prints them.
    result : object
        What they were taken from: a curve, a list of curves, a calibration, a plan.
    certify : callable, optional
        Returns a proof in ball arithmetic of the answer, where there is a way to ask for one.
    """

    facts: Any
    result: Any
    certify: "Callable[[], Certificate] | None" = None


@dataclass(frozen=True)
class Parameter:
    """A parameter of a question.

    Attributes
    ----------
    name : str
        As in Python.
    of : Kind
        How its text is read, and which words it may be.
    default : object
        The value if none is given; `inspect.Parameter.empty` if one is needed.
    description : str
        What the docstring says of it, on one line.
    group : str
        The argument of the function that it is a field of; nothing if it is an argument itself.
    """

    name: str
    of: Kind
    default: Any
    description: str
    group: str = ""

    @property
    def kind(self) -> str:
        """Its kind: number, count, flag, day, word or text."""
        return self.of.name

    @property
    def required(self) -> bool:
        """Whether it has to be given."""
        return self.default is inspect.Parameter.empty


@dataclass(kw_only=True, eq=False)
class Question:
    """A question, and how user interfaces present it; it is called with the parameters as keyword arguments.

    Attributes
    ----------
    function : callable
        The function that answers it. An argument that is a dataclass, such as `Setting`, has its fields as parameters.
    example : str
        The parameters of an example, as they stand in an address; nothing if it needs a file.
    python : callable, optional
        Returns lines of Python that print the main number, given the arguments that differ from their defaults.
        Without it, the code calls the question.
    chart : callable, optional
        Returns the chart of an answer, given the answer and the arguments.
    drawn : str
        The content of the chart, for the help of the verb.
    panel : str
        The title of its panel on the page, which is made from the parameters; nothing if it has none.
    verb : str
        Another verb that answers the question, such as amplify for `attack`. If it is empty, the verb has the name
        of the question; it is generated from the question unless `shoal.cli.verbs` has a file with this name.
    without : tuple of str
        The parameters that this verb does not have.
    first : str
        The parameter that the verb takes without the name of an option.
    quick : bool
        Whether it takes milliseconds, so that a slider may ask it; for all others together one worker is left free.
    seconds : float
        The longest time that the server of the page computes an answer.
    adds : str
        Options that a command needs in addition.
    """

    function: Callable[..., Answer]
    example: str = ""
    python: Callable[[dict[str, Any]], Sequence[str]] | None = None
    chart: "Callable[[Answer, dict[str, Any]], Chart] | None" = None
    drawn: str = "the chart"
    panel: str = ""
    verb: str = ""
    without: tuple[str, ...] = ()
    first: str = ""
    quick: bool = False
    seconds: float = 10.0
    adds: str = ""

    def __post_init__(self) -> None:
        """Take over the name, the module and the docstring of the function."""
        update_wrapper(self, self.function)

    def __call__(self, **arguments: Any) -> Answer:
        """Answer the question, whose arguments are `parameters`."""
        given = dict(arguments)
        for group, kind in self._groups.items():
            names = [name for name, each in self.parameters.items() if each.group == group and name in given]
            given[group] = kind(**{name: given.pop(name) for name in names})
        return self.function(**given)

    @property
    def name(self) -> str:
        """Its name, which is that of its function and of its file."""
        return self.function.__name__

    @cached_property
    def _hints(self) -> dict[str, Any]:
        return get_type_hints(self.function, include_extras=True)

    @cached_property
    def _groups(self) -> dict[str, type]:
        """The arguments whose fields are parameters."""
        return {
            name: self._hints[name]
            for name in inspect.signature(self.function).parameters
            if isinstance(self._hints[name], type) and is_dataclass(self._hints[name])
        }

    @cached_property
    def parameters(self) -> dict[str, Parameter]:
        """The parameters by name, in their order."""
        said = _sections(inspect.getdoc(self.function) or "")
        found: dict[str, Parameter] = {}
        for name, each in inspect.signature(self.function).parameters.items():
            if name not in self._groups:
                found[name] = Parameter(name, _kind(self._hints[name]), each.default, said.get(name, ""))
                continue
            group = self._groups[name]
            hints, texts = get_type_hints(group, include_extras=True), _sections(inspect.getdoc(group) or "")
            for part in fields(group):
                found[part.name] = Parameter(part.name, _kind(hints[part.name]), part.default, texts[part.name], name)
        return found

    @cached_property
    def handed_over(self) -> Parameter | None:
        """The parameter that is the text of a file, if there is one."""
        return next((each for each in self.parameters.values() if each.kind == "text"), None)

    @property
    def about(self) -> str:
        """The docstring up to the list of parameters."""
        return (inspect.getdoc(self.function) or "").partition("\n\nParameters\n")[0]

    @property
    def summary(self) -> str:
        """The first sentence of the docstring."""
        return self.about.partition("\n")[0]

    @property
    def command(self) -> str:
        """The example as a command."""
        words = ["shoal", self.verb or self.name]
        for name, text in parse_qsl(self.example):
            words += [text] if name == self.first else [option(name), text]
        return " ".join(words)

    def read(self, texts: Mapping[str, str], body: str | None = None) -> dict[str, Any]:
        """Return the arguments that texts describe; `body` is the text of a file, for the parameter that takes one.

        A name that there is not, a value that is none, or one that is missing raises ParameterError with this name.

        Examples
        --------
        >>> question("amplify").read({"reports": "10_000", "local_epsilon": "1"})
        {'reports': 10000.0, 'local_epsilon': 1.0}
        """
        arguments = {}
        for name, text in texts.items():
            known(tuple(name for name, each in self.parameters.items() if each.kind != "text"), parameter=name)
            if len(text) > _MOST_LETTERS:
                raise ParameterError(f"{name} must have at most {_MOST_LETTERS} letters, got {len(text):,}", name)
            arguments[name] = self.parameters[name].of.read(text, name)
        if body is not None:
            taken = self.handed_over
            if taken is None:
                raise ParameterError(f"{self.name} takes no file, only parameters in the address")
            arguments[taken.name] = taken.of.read(body, "the file")
        for name, each in self.parameters.items():
            if each.required and name not in arguments:
                raise AskedError(f"{self.name} needs {{{name}}} with a value", name)
        return arguments

    def field(self, error: Exception) -> str | None:
        """Return the parameter that an error is about, if it is about one."""
        name = error.parameter if isinstance(error, ParameterError) else None
        return name if name in self.parameters else None


def asks(**about: Any) -> Callable[[Callable[..., Answer]], Question]:
    """Return a decorator that makes a question of a function."""
    return lambda function: Question(function=function, **about)


def option(name: str) -> str:
    """Return how a parameter is typed in a command."""
    return f"--{name.replace('_', '-')}"


def column(rows: Sequence[dict[str, Any]], name: str) -> list[float]:
    """Return a column of facts for a chart, NaN where there is nothing."""
    return [math.nan if row[name] is None else row[name] for row in rows]


def _kind(hint: Any) -> Kind:
    """Return the kind of a parameter with this annotation."""
    for each in (hint, *get_args(hint)):
        if get_origin(each) is Annotated and isinstance(each.__metadata__[0], Kind):
            return each.__metadata__[0]
    return _WORD


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


def names() -> tuple[str, ...]:
    """Return the names of all questions, each of which is a file of `shoal.questions`.

    Examples
    --------
    >>> names()[:3]
    ('amplify', 'attack', 'calibrate')
    """
    return tuple(sorted(name for name in _files() if find(name) is not None))


def _files() -> list[str]:
    return [module.name for module in iter_modules(questions.__path__)]


@cache
def find(name: str) -> Question | None:
    """Return the question that a file of `shoal.questions` defines under the name of the file, or None."""
    found = getattr(import_module(f"{questions.__name__}.{name}"), name, None)
    return found if isinstance(found, Question) else None


def question(name: str) -> Question:
    """Return the question of this name.

    Examples
    --------
    >>> question("amplify").summary
    'Say what (ε, δ) n shuffled reports have.'
    """
    found = find(name) if name in _files() else None
    if found is None:
        known(names(), question=name)
    assert found is not None
    return found
