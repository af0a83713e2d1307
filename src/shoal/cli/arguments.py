"""What the verbs take: numbers written in many ways, and the description of what each person runs."""

from collections.abc import Sequence
from typing import Annotated, Any

from cyclopts import Parameter

from shoal.checks import known
from shoal.errors import ParameterError
from shoal.numerals import count_in, number_in
from shoal.randomizers import MECHANISMS, Gaussian, Laplace, OneBitMean

__all__ = ["Count", "Flag", "Number", "described"]


def _number(_: type, tokens: Sequence[Any]) -> float:
    return number_in(tokens[0].value, _name(tokens[0]))


def _count(_: type, tokens: Sequence[Any]) -> float:
    return count_in(tokens[0].value, _name(tokens[0]))


def _name(token: Any) -> str:
    return str(token.keyword).lstrip("-").replace("-", "_")


Number = Annotated[float, Parameter(converter=_number, allow_leading_hyphen=True, metavar="NUMBER")]
Count = Annotated[float, Parameter(converter=_count, allow_leading_hyphen=True, metavar="COUNT")]
Flag = Annotated[bool, Parameter(negative="")]


def described(
    randomizer: str | None, local_epsilon: float | None, categories: float | None, deviation: float | None
) -> dict[str, Any]:
    """Return the arguments that tell `shoal.amplify` what each person runs."""
    if randomizer is not None:
        known((*MECHANISMS, "gaussian", "laplace", "one-bit-mean"), randomizer=randomizer)
    if randomizer == "gaussian":
        if deviation is None or local_epsilon is not None or categories is not None:
            raise ParameterError("gaussian needs --deviation alone, such as --randomizer gaussian --deviation 1")
        return {"randomizer": Gaussian(deviation=deviation)}
    if deviation is not None:
        raise ParameterError("deviation belongs to --randomizer gaussian")
    if local_epsilon is None:
        raise ParameterError("this needs --local-epsilon with a value, such as --local-epsilon 1")
    if randomizer in ("laplace", "one-bit-mean"):
        if categories is not None:
            raise ParameterError(f"{randomizer} takes values between 0 and 1, and no --categories")
        number = Laplace if randomizer == "laplace" else OneBitMean
        return {"randomizer": number(local_epsilon=local_epsilon)}
    if categories is None:
        if randomizer is not None:
            raise ParameterError(f"{randomizer} needs --categories, such as --randomizer {randomizer} --categories 100")
        return {"local_epsilon": local_epsilon}
    kind = MECHANISMS[randomizer or "randomized-response"]
    return {"randomizer": kind(categories=categories, local_epsilon=local_epsilon)}  # type: ignore[arg-type]
