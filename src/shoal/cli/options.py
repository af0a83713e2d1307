"""The options that several verbs share: numbers written in many ways, what each person runs, names of bounds."""

from collections.abc import Sequence
from typing import Annotated, Any

from cyclopts import Parameter

from shoal.amplification.amplify import proven_bounds
from shoal.composition.composition_method import METHODS
from shoal.digits import count_in, number_in
from shoal.errors import ParameterError
from shoal.questions.setting import mechanism_names


def _number(_: type, tokens: Sequence[Any]) -> float:
    return number_in(tokens[0].value, _name(tokens[0]))


def _count(_: type, tokens: Sequence[Any]) -> float:
    return count_in(tokens[0].value, _name(tokens[0]))


def _rounds(_: type, tokens: Sequence[Any]) -> float:
    text = tokens[0].value
    if text.endswith(".csv"):
        raise ParameterError(
            f"rounds must be a number, got {text!r}; `shoal compose --table {text}` composes the rounds of a file"
        )
    return _count(_, tokens)


def _name(token: Any) -> str:
    return str(token.keyword).lstrip("-").replace("-", "_")


Number = Annotated[float, Parameter(converter=_number, allow_leading_hyphen=True, metavar="NUMBER")]
Count = Annotated[float, Parameter(converter=_count, allow_leading_hyphen=True, metavar="COUNT")]
_ROUNDS = Parameter(
    converter=_rounds,
    allow_leading_hyphen=True,
    metavar="COUNT",
)
Rounds = Annotated[float, _ROUNDS]
OptionalRounds = Annotated[float | None, _ROUNDS]
Flag = Annotated[bool, Parameter(negative="")]
Json = Annotated[bool, Parameter(negative="", help="print everything as JSON.")]
Person = Annotated[
    str | None,
    Parameter(
        help="the column that says whose each row is; a second row of a person is refused. Without it, ε holds for "
        "each person only if each has one row of the table, which nothing checks. The column goes into no output."
    ),
]
Bound = Annotated[str, Parameter(help=f"which bound to use: {', '.join(proven_bounds())}; see `shoal explain`.")]
Method = Annotated[str, Parameter(help=f"how rounds are added up: {', '.join(METHODS)}; see `shoal explain`.")]


RandomizerName = Annotated[
    str | None,
    Parameter(
        help=f"what each person runs, for a tighter answer: {mechanism_names('categories')}, with --categories; "
        f"or, for numbers, {mechanism_names('lower')} "
        f"({mechanism_names('sigma')} with --sigma instead of --local-epsilon)."
    ),
]


MechanismName = Annotated[
    str,
    Parameter(
        help=f"its name: {mechanism_names('categories', 'local_epsilon')}, with --categories; or, for numbers, "
        f"{mechanism_names('lower', 'local_epsilon')}."
    ),
]
