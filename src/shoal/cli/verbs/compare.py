"""The verb `compare`: every bound that applies."""

from shoal.cli.app import GUARANTEES, app
from shoal.cli.help_text import asking
from shoal.cli.options import Count, CurveOutput, LocalRandomizer, Number
from shoal.cli.output import print_table
from shoal.questions import compare as question

__all__ = ["compare"]


@app.command(group=GUARANTEES, help_epilogue="Example:  shoal compare --local-epsilon 4 --reports 1e6")
@asking("compare")
def compare(
    *,
    reports: Count,
    local: LocalRandomizer = LocalRandomizer(),
    delta: Number = 1e-6,
    output: CurveOutput = CurveOutput(),
) -> None:
    """List every bound that applies, the tightest first, and what no bound can beat."""
    answer = question.compare(**local.arguments(), reports=reports, delta=delta)
    output.show(answer.facts, print_table, answer.result, delta)
