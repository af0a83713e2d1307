"""The verb `explain`: what a bound says, assumes and is proved by."""

from shoal.cli.app import GUARANTEES, app
from shoal.cli.options import Json
from shoal.cli.output import print_entries, print_entry, print_json
from shoal.cli.theorems import EXPLAINED, explained

__all__ = ["explain"]


@app.command(group=GUARANTEES, help_epilogue="Example:  shoal explain strong-clones")
def explain(bound: str | None = None, *, json: Json = False) -> None:
    """Print the statement, the assumptions and the citation of a bound, or list all bounds.

    Those of one round come first, then the ways to add rounds up, then the bounds of noisy SGD.

    Parameters
    ----------
    bound
        its name, such as strong-clones, loss or gaussian-clones.
    """
    rows = EXPLAINED if bound is None else (explained(bound),)
    if json:
        facts = [
            {
                "bound": row.name,
                "theorem": row.theorem,
                "statement": row.statement,
                "assumptions": list(row.assumptions),
                "approximate": row.approximate,
                "numerical": row.numerical,
                "needs": row.needs,
                "range": row.range,
                "adaptive": row.adaptive,
                "proven": row.proven,
                "proof": row.proof,
            }
            for row in rows
        ]
        print_json(facts if bound is None else facts[0])
    elif bound is None:
        print_entries(rows)
    else:
        print_entry(rows[0])
