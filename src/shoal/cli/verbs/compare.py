"""The verb `compare`: every bound that applies."""

import shoal
from shoal.cli.app import GUARANTEES, app
from shoal.cli.options import Count, CurveOutput, LocalRandomizer, Number
from shoal.cli.output import print_table

__all__ = ["compare"]


@app.command(group=GUARANTEES, help_epilogue="Example:  shoal compare --local-epsilon 4 --reports 1e6")
def compare(
    *,
    reports: Count,
    local: LocalRandomizer = LocalRandomizer(),
    delta: Number = 1e-6,
    output: CurveOutput = CurveOutput(),
) -> None:
    """List every bound that applies, the tightest first, and what no bound can beat.

    Parameters
    ----------
    reports
        how many reports are shuffled together; 10_000, 1e6 and 1000000 are all fine.
    delta
        δ of the answers.
    """
    curves = shoal.compare(**local.arguments(), reports=reports, delta=delta)
    output.show([curve.to_dict(delta=delta) for curve in curves], print_table, curves, delta)
