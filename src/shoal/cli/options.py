"""The options that several verbs share: numbers written in many ways, what each person runs, how to show an answer."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

import shoal
from shoal.amplification.amplify import proven_bounds
from shoal.checks import known
from shoal.cli.output import show
from shoal.cli.pictures import draw
from shoal.composition.composition_method import METHODS
from shoal.errors import ParameterError
from shoal.numerals import count_in, number_in
from shoal.randomizers import kinds, registration
from shoal.randomizers.registry import import_installed

__all__ = [
    "Bound",
    "Count",
    "CurveOutput",
    "Flag",
    "Json",
    "LocalRandomizer",
    "MechanismName",
    "Method",
    "Number",
    "described",
    "names",
    "randomizer_of",
]


def _number(_: type, tokens: Sequence[Any]) -> float:
    return number_in(tokens[0].value, _name(tokens[0]))


def _count(_: type, tokens: Sequence[Any]) -> float:
    return count_in(tokens[0].value, _name(tokens[0]))


def _name(token: Any) -> str:
    return str(token.keyword).lstrip("-").replace("-", "_")


Number = Annotated[float, Parameter(converter=_number, allow_leading_hyphen=True, metavar="NUMBER")]
Count = Annotated[float, Parameter(converter=_count, allow_leading_hyphen=True, metavar="COUNT")]
Flag = Annotated[bool, Parameter(negative="")]
Json = Annotated[bool, Parameter(negative="", help="print everything as JSON.")]
Bound = Annotated[str, Parameter(help=f"which bound to use: {', '.join(proven_bounds())}; see `shoal explain`.")]
Method = Annotated[str, Parameter(help=f"how rounds are added up: {', '.join(METHODS)}; see `shoal explain`.")]


_OPTIONS = ("categories", "deviation", "local_epsilon")
"""Parameters of a randomizer that the command line has options for; all others have defaults, or come in a schema."""
_EXAMPLES = {"categories": "100", "deviation": "1", "local_epsilon": "1"}


def names(*parameters: str) -> str:
    """Return the names of the registered randomizers that the options can describe, in words.

    Parameters
    ----------
    *parameters : str
        Only those that have each of these parameters.

    Examples
    --------
    >>> names("lower")
    'gaussian, laplace or one-bit-mean'
    """
    *others, last = kinds(*parameters, within=_OPTIONS)
    return f"{', '.join(others)} or {last}" if others else last


RandomizerName = Annotated[
    str | None,
    Parameter(
        help=f"what each person runs, for a tighter answer: {names('categories')}, with --categories; or, for "
        f"numbers, {names('lower')} ({names('deviation')} with --deviation instead of --local-epsilon)."
    ),
]


MechanismName = Annotated[
    str,
    Parameter(
        help=f"its name: {names('categories', 'local_epsilon')}, with --categories; or, for numbers, "
        f"{names('lower', 'local_epsilon')}."
    ),
]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class LocalRandomizer:
    """What each person runs.

    Parameters
    ----------
    local_epsilon
        ε₀ of what each person runs.
    local_delta
        δ₀ of what each person runs.
    categories
        over how many categories; alone, it says randomized-response.
    deviation
        the standard deviation of Gaussian noise on values between 0 and 1.
    """

    local_epsilon: Number | None = None
    local_delta: Number = 0.0
    randomizer: RandomizerName = None
    categories: Count | None = None
    deviation: Number | None = None

    def amplify(self, reports: float, bound: str) -> shoal.PrivacyCurve:
        """Return the guarantee of this many shuffled reports."""
        return shoal.amplify(**self.arguments(), reports=reports, bound=bound)

    def arguments(self) -> dict[str, Any]:
        """Return the arguments that describe it to `shoal.amplify`."""
        kind = described(self.randomizer, self.local_epsilon, self.categories, self.deviation)
        return kind | {"local_delta": self.local_delta}


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class CurveOutput:
    """How a guarantee is shown.

    Parameters
    ----------
    plot
        draw ε against δ into this file (.png, .svg, .pdf).
    """

    json: Json = False
    plot: Path | None = None

    def show(
        self,
        facts: Any,
        table: Callable[[Any], None],
        curves: Sequence[shoal.PrivacyCurve | shoal.Comparison],
        delta: float,
    ) -> None:
        """Print the facts, and draw the curves if a file is named."""
        show(facts, table, json=self.json, picture=draw(self.plot, curves, delta))


def randomizer_of(name: str, option: str, **given: float | None) -> Any:
    """Return the randomizer of this name, with the parameters that were given.

    Parameters
    ----------
    name : str
        As it is registered.
    option : str
        The option that gave the name, "randomizer" or "mechanism".
    **given : float or None
        Parameters; None for those that were not given.
    """
    choices = kinds(within=_OPTIONS)
    if name not in choices:
        import_installed()
        choices = kinds(within=_OPTIONS)
    row = registration(known(tuple(choices), **{option: name}), option)
    values = {parameter: value for parameter, value in given.items() if value is not None}
    options = [f"--{parameter.replace('_', '-')}" for parameter in row.fields if parameter in _OPTIONS]
    for parameter in (parameter for parameter in _OPTIONS if parameter in values and parameter not in row.fields):
        raise ParameterError(f"{name} takes {' and '.join(options)}, and no --{parameter.replace('_', '-')}")
    if missing := [parameter for parameter in row.required if parameter not in values]:
        example = " ".join(f"--{parameter.replace('_', '-')} {_EXAMPLES[parameter]}" for parameter in row.required)
        raise ParameterError(f"{name} needs --{missing[0].replace('_', '-')}, such as --{option} {name} {example}")
    return row.kind(**values)


def described(
    randomizer: str | None, local_epsilon: float | None, categories: float | None, deviation: float | None
) -> dict[str, Any]:
    """Return the arguments that tell `shoal.amplify` what each person runs."""
    if randomizer is None and categories is None:
        if deviation is not None:
            raise ParameterError("deviation belongs to --randomizer gaussian")
        if local_epsilon is None:
            raise ParameterError("this needs --local-epsilon with a value, such as --local-epsilon 1")
        return {"local_epsilon": local_epsilon}
    name = randomizer or "randomized-response"
    given = {"local_epsilon": local_epsilon, "categories": categories, "deviation": deviation}
    return {"randomizer": randomizer_of(name, "randomizer", **given)}
