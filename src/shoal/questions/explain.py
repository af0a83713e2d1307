"""The question `explain`: what a bound says, assumes and is proved by."""

from typing import Annotated, Any

import shoal
from shoal.catalogue import KINDS
from shoal.questions.copied_code import call, literal, taken
from shoal.questions.parameters import word
from shoal.questions.question import Answer, asks


def _python(given: dict[str, Any]) -> list[str]:
    name = [literal(given["name"])] if "name" in given else []
    return [f"print({call('shoal.explain' if name else 'shoal.theorems', *name, *taken(given, 'kind'))})"]


@asks(example="name=strong-clones", python=_python, quick=True, first="name")
def explain(*, name: str | None = None, kind: Annotated[str, word(*KINDS)] | None = None) -> Answer:
    """Print the statement, the assumptions and the citation of a bound, or list all bounds.

    Those of one round come first, then the methods that add rounds up, then the bounds of noisy SGD.

    Parameters
    ----------
    name : str, optional
        Such as strong-clones, loss or gaussian-clones.
    kind : str, optional
        shuffling, composition or training; the clones are in the first and the last.

    Returns
    -------
    Answer
        Its result is a tuple of `Theorem`; its facts are a list of them, or one if a name is given.

    Examples
    --------
    >>> explain(name="strong-clones").facts["kind"]
    'shuffling'
    """
    rows = shoal.theorems(kind) if name is None else (shoal.explain(name, kind=kind),)
    facts = [row.to_dict() for row in rows]
    return Answer(facts if name is None else facts[0], rows)
