"""The verb `amplify`: the guarantee of one round."""

from shoal.cli.app import GUARANTEES, app
from shoal.cli.certificates import CertificateFile, certified
from shoal.cli.help_text import asking
from shoal.cli.options import Bound, Count, CurveOutput, Flag, LocalRandomizer, Number
from shoal.cli.output import print_guarantee
from shoal.questions import amplify as question

__all__ = ["amplify"]


@app.command(group=GUARANTEES, help_epilogue="Example:  shoal amplify --local-epsilon 1 --reports 10_000 --delta 1e-6")
@asking("amplify")
def amplify(
    *,
    reports: Count,
    local: LocalRandomizer = LocalRandomizer(),
    delta: Number = 1e-6,
    bound: Bound = "tightest",
    certify: Flag = False,
    certificate: CertificateFile = None,
    output: CurveOutput = CurveOutput(),
) -> None:
    """Say what (ε, δ) n shuffled reports have."""
    answer = question.amplify(**local.arguments(), reports=reports, delta=delta, bound=bound)
    facts = answer.facts
    if certify or certificate is not None:
        facts |= certified(answer, certificate)
    output.show(facts, print_guarantee, [answer.result], delta)
