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
from shoal.randomizers import MECHANISMS, Gaussian, Laplace, OneBitMean

__all__ = ["Bound", "Count", "CurveOutput", "Flag", "Json", "LocalRandomizer", "Method", "Number", "described"]


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
    randomizer
        what each person runs, for a tighter answer: randomized-response, hadamard-response,
        recursive-hadamard-response, projective-geometry-response, private-independent-rappor, subset-selection,
        local-hashing, unary-encoding or rappor, with --categories; laplace or one-bit-mean; or gaussian, with
        --deviation instead of --local-epsilon.
    categories
        over how many categories; alone, it says randomized-response.
    deviation
        the standard deviation of Gaussian noise on values between 0 and 1.
    """

    local_epsilon: Number | None = None
    local_delta: Number = 0.0
    randomizer: str | None = None
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


def described(
    randomizer: str | None, local_epsilon: float | None, categories: float | None, deviation: float | None
) -> dict[str, Any]:
    """Return the randomizer that the options describe, or the ε₀ alone, as arguments of `shoal.amplify`."""
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
