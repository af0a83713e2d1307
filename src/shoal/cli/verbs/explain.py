"""The verb `explain`: what a bound says, assumes and is proved by."""

from shoal.cli.app import GUARANTEES, app
from shoal.cli.help_text import asking
from shoal.cli.options import Json
from shoal.cli.output import print_json, print_theorem, print_theorems
from shoal.questions import explain as question

__all__ = ["explain"]


@app.command(group=GUARANTEES, help_epilogue="Example:  shoal explain strong-clones")
@asking("explain")
def explain(name: str | None = None, *, kind: str | None = None, json: Json = False) -> None:
    """Print the statement, the assumptions and the citation of a bound, or list all bounds.

    Those of one round come first, then the methods that add rounds up, then the bounds of noisy SGD.
    """
    answer = question.explain(name=name, kind=kind)
    if json:
        print_json(answer.facts)
    elif name is None:
        print_theorems(answer.result)
    else:
        print_theorem(answer.result[0])
