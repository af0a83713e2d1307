"""The question `explain`: what a bound says, assumes and is proved by."""

import shoal
from shoal.questions.answer import Answer

__all__ = ["explain"]


def explain(*, name: str | None = None, kind: str | None = None) -> Answer:
    """Return the statement, the assumptions and the citation of a bound, or those of all bounds.

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
