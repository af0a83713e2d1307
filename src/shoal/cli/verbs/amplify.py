"""The verb `amplify`: the guarantee of one round."""

from pathlib import Path

from shoal.cli.app import GUARANTEES, app
from shoal.cli.options import Bound, Count, CurveOutput, Flag, LocalRandomizer, Number
from shoal.cli.output import print_guarantee
from shoal.durable_file import whole_file

__all__ = ["amplify"]


@app.command(group=GUARANTEES, help_epilogue="Example:  shoal amplify --local-epsilon 1 --reports 10_000 --delta 1e-6")
def amplify(
    *,
    reports: Count,
    local: LocalRandomizer = LocalRandomizer(),
    delta: Number = 1e-6,
    bound: Bound = "tightest",
    certify: Flag = False,
    certificate: Path | None = None,
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
    certificate
        prove it, and write the proof into this file, to be checked again.
    """
    curve = local.amplify(reports, bound)
    facts = curve.to_dict(delta=delta)
    if certify or certificate is not None:
        proof = curve.certify(delta=delta)
        facts |= {"epsilon": proof.epsilon, "certified": True}
        if certificate is not None:
            with whole_file(certificate) as file:
                file.write((proof.to_json() + "\n").encode())
            facts["certificate"] = str(certificate)
    output.show(facts, print_guarantee, [curve], delta)
