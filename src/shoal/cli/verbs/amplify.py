"""The verb `amplify`: the guarantee of one round."""

from shoal.cli.app import GUARANTEES, app
from shoal.cli.certificates import CertificateFile, certified
from shoal.cli.options import Bound, Count, CurveOutput, Flag, LocalRandomizer, Number
from shoal.cli.output import print_guarantee

__all__ = ["amplify"]


@app.command(group=GUARANTEES, help_epilogue="Example:  shoal amplify --local-epsilon 1 --reports 10_000 --delta 1e-6")
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
    """Say what (ε, δ) n shuffled reports have.

    Parameters
    ----------
    reports
        how many reports are shuffled together; 10_000, 1e6 and 1000000 are all fine.
    delta
        δ of the answer.
    certify
        prove the answer in ball arithmetic.
    """
    curve = local.amplify(reports, bound)
    facts = curve.to_dict(delta=delta)
    if certify or certificate is not None:
        facts |= certified(lambda: curve.certify(delta=delta), certificate)
    output.show(facts, print_guarantee, [curve], delta)
