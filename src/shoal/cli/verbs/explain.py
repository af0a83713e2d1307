"""The verb `explain`: what a bound says, assumes and is proved by."""

import shoal
from shoal.cli.app import GUARANTEES, app
from shoal.cli.options import Json
from shoal.cli.output import print_json, print_theorem, print_theorems

__all__ = ["explain"]


@app.command(group=GUARANTEES, help_epilogue="Example:  shoal explain strong-clones")
def explain(name: str | None = None, *, kind: str | None = None, json: Json = False) -> None:
    """Print the statement, the assumptions and the citation of a bound, or list all bounds.

    Those of one round come first, then the methods that add rounds up, then the bounds of noisy SGD.

    Parameters
    ----------
    name
        such as strong-clones, loss or gaussian-clones.
    kind
        shuffling, composition or training; the clones are in the first and the last.
    """
    rows = shoal.theorems(kind) if name is None else (shoal.explain(name, kind=kind),)
    if json:
        facts = [row.to_dict() for row in rows]
        print_json(facts if name is None else facts[0])
    elif name is None:
        print_theorems(rows)
    else:
        print_theorem(rows[0])
