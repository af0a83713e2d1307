"""What each person runs, as a few parameters describe it: a name, ε₀, categories, σ."""

from dataclasses import dataclass
from typing import Annotated, Any

import shoal
from shoal.checks import known
from shoal.errors import AskedError
from shoal.mechanisms import kinds, registration
from shoal.pairs.registry import import_installed
from shoal.questions.parameters import Count, Kind, Number

_PARAMETERS = ("categories", "sigma", "local_epsilon")
"""Parameters of a randomizer that a question can give; all others have defaults, or come in a schema."""
_PLANNED = {"covered": "{messages=2}", "dummies": "{dummies}"}
"""Mechanisms whose parameters only a plan fits to a guarantee, and what the plan is asked for."""
_EXAMPLES = {"categories": "100", "sigma": "1", "local_epsilon": "1"}

RandomizerName = Annotated[str, Kind("word", lambda text, _: text, lambda: tuple(kinds(within=_PARAMETERS)))]
"""The registered name of a randomizer that parameters can describe."""


def mechanism_names(*parameters: str) -> str:
    """Return the names of the registered randomizers that the parameters can describe, in words.

    Examples
    --------
    >>> mechanism_names("lower")
    'gaussian, laplace or one-bit-mean'
    """
    *others, last = kinds(*parameters, within=_PARAMETERS)
    return f"{', '.join(others)} or {last}" if others else last


def randomizer_of(name: str, parameter: str, **given: float | None) -> Any:
    """Return the randomizer of this name, with the parameters that were given."""
    choices = kinds(within=_PARAMETERS)
    if name not in choices:
        import_installed()
        choices = kinds(within=_PARAMETERS)
    if name in _PLANNED:
        asked = f"`shoal plan` with {_PLANNED[name]} fits to a guarantee; use the schema that it writes"
        raise AskedError(f"{name} has parameters that {asked}", parameter)
    row = registration(known(tuple(choices), **{parameter: name}), parameter)
    values = {key: value for key, value in given.items() if value is not None}
    taken = [f"{{{key}}}" for key in row.fields if key in _PARAMETERS]
    for key in (key for key in _PARAMETERS if key in values and key not in row.fields):
        raise AskedError(f"{name} takes {' and '.join(taken)}, and no {{{key}}}", key)
    if missing := [key for key in row.required if key not in values]:
        example = ", ".join((f"{parameter}={name}", *(f"{key}={_EXAMPLES[key]}" for key in row.required)))
        raise AskedError(f"{name} needs {{{missing[0]}}}, such as {{{example}}}", missing[0])
    return row.kind(**values)


@dataclass(frozen=True, kw_only=True)
class Setting:
    """The local randomizer of each person, as the parameters of many questions describe it.

    Parameters
    ----------
    local_epsilon : float, optional
        ε₀ of what each person runs.
    local_delta : float
        δ₀ of what each person runs.
    randomizer : str, optional
        What each person runs, by its registered name, for a tighter answer.
    categories : int or float, optional
        Over how many categories; alone, it says randomized-response.
    sigma : float, optional
        The standard deviation σ of Gaussian noise on values between 0 and 1.
    """

    local_epsilon: Number | None = None
    local_delta: Number = 0.0
    randomizer: RandomizerName | None = None
    categories: Count | None = None
    sigma: Number | None = None

    def described(self) -> dict[str, Any]:
        """Return the arguments that tell `shoal.amplify` what each person runs, but δ₀."""
        if self.randomizer is None and self.categories is None:
            if self.sigma is not None:
                raise AskedError("sigma belongs to {randomizer=gaussian}", "sigma")
            if self.local_epsilon is None:
                raise AskedError("this needs {local_epsilon} with a value, such as {local_epsilon=1}", "local_epsilon")
            return {"local_epsilon": self.local_epsilon}
        name = self.randomizer or "randomized-response"
        given = {key: getattr(self, key) for key in _PARAMETERS}
        return {"randomizer": randomizer_of(name, "randomizer", **given)}

    def amplified(self, reports: float, bound: str) -> shoal.PrivacyCurve:
        """Return the guarantee of one round."""
        return shoal.amplify(**self.described(), local_delta=self.local_delta, reports=reports, bound=bound)
