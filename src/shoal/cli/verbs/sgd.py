"""The verb `sgd`: what a run of noisy SGD guarantees."""

from typing import Any

from shoal.cli.app import TRAINING, app
from shoal.cli.asking import asking
from shoal.cli.files import CertificateFile, certified
from shoal.cli.options import Json
from shoal.cli.output import show
from shoal.cli.train_output import print_run
from shoal.questions.sgd import sgd as question


@app.command(
    group=TRAINING, help_epilogue="Example:  shoal sgd --examples 60_000 --batch-size 64 --noise-multiplier 0.8"
)
@asking("sgd")
def sgd(asked: dict[str, Any], *, certificate: CertificateFile = None, json: Json = False) -> None:
    """Compute the guarantee of a run of noisy SGD, or how much noise a guarantee needs, without training anything."""
    answer = question(**asked)
    facts = answer.facts
    if certificate is not None:
        facts |= certified(answer, certificate)
    show(facts, print_run, json=json)
