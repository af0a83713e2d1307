"""What each person runs, as a few parameters describe it: a name, ε₀, categories, a deviation."""

from typing import Any

import shoal
from shoal.checks import known
from shoal.errors import AskedError
from shoal.mechanisms import kinds, registration
from shoal.pairs.registry import import_installed

__all__ = ["amplified", "described", "names", "randomizer_of"]

_PARAMETERS = ("categories", "deviation", "local_epsilon")
"""Parameters of a randomizer that a question can give; all others have defaults, or come in a schema."""
_PLANNED = {"covered": "{messages=2}", "dummies": "{dummies}"}
"""Mechanisms whose parameters only a plan fits to a guarantee, and what the plan is asked for."""
_EXAMPLES = {"categories": "100", "deviation": "1", "local_epsilon": "1"}


def names(*parameters: str) -> str:
    """Return the names of the registered randomizers that the parameters can describe, in words.

    Parameters
    ----------
    *parameters : str
        Only those that have each of these parameters.

    Examples
    --------
    >>> names("lower")
    'gaussian, laplace or one-bit-mean'
    """
    *others, last = kinds(*parameters, within=_PARAMETERS)
    return f"{', '.join(others)} or {last}" if others else last


def randomizer_of(name: str, parameter: str, **given: float | None) -> Any:
    """Return the randomizer of this name, with the parameters that were given.

    Parameters
    ----------
    name : str
        As it is registered.
    parameter : str
        The parameter that gave the name, "randomizer" or "mechanism".
    **given : float or None
        Parameters; None for those that were not given.
    """
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


def described(
    randomizer: str | None, local_epsilon: float | None, categories: float | None, deviation: float | None
) -> dict[str, Any]:
    """Return the arguments that tell `shoal.amplify` what each person runs."""
    if randomizer is None and categories is None:
        if deviation is not None:
            raise AskedError("deviation belongs to {randomizer=gaussian}", "deviation")
        if local_epsilon is None:
            raise AskedError("this needs {local_epsilon} with a value, such as {local_epsilon=1}", "local_epsilon")
        return {"local_epsilon": local_epsilon}
    name = randomizer or "randomized-response"
    given = {"local_epsilon": local_epsilon, "categories": categories, "deviation": deviation}
    return {"randomizer": randomizer_of(name, "randomizer", **given)}


def amplified(
    *,
    reports: float,
    local_epsilon: float | None,
    local_delta: float,
    randomizer: str | None,
    categories: float | None,
    deviation: float | None,
    bound: str,
) -> shoal.PrivacyCurve:
    """Return the guarantee of one round that parameters describe."""
    kind = described(randomizer, local_epsilon, categories, deviation)
    return shoal.amplify(**kind, local_delta=local_delta, reports=reports, bound=bound)
