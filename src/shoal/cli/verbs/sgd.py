"""The verb `sgd`: what a run of noisy SGD guarantees."""

from shoal.cli.app import TRAINING, app
from shoal.cli.asking import asking
from shoal.cli.files import CertificateFile, certified
from shoal.cli.options import Count, Flag, Json, Number
from shoal.cli.output import show
from shoal.cli.train_output import Sampling, print_run
from shoal.questions.sgd import sgd as question

__all__ = ["sgd"]


@app.command(
    group=TRAINING, help_epilogue="Example:  shoal sgd --examples 60_000 --batch-size 64 --noise-multiplier 0.8"
)
@asking("sgd")
def sgd(
    *,
    examples: Count = 0,
    batch_size: Count = 1,
    noise_multiplier: Number | None = None,
    epsilon: Number | None = None,
    delta: Number = 1e-6,
    clip_norm: Number = 1.0,
    epochs: Count = 1,
    noise: str = "batch",
    releases: str = "every-step",
    adjacency: str = "replace",
    sampling: Sampling = None,
    public_steps: Count | None = None,
    participations: Count = 1,
    poisson: Flag = False,
    certificate: CertificateFile = None,
    json: Json = False,
) -> None:
    """Say what a run of noisy SGD guarantees, or how much noise a guarantee needs, without training anything."""
    answer = question(
        examples=examples,
        batch_size=batch_size,
        noise_multiplier=noise_multiplier,
        epsilon=epsilon,
        delta=delta,
        clip_norm=clip_norm,
        epochs=epochs,
        noise=noise,
        releases=releases,
        adjacency=adjacency,
        sampling=sampling,
        public_steps=public_steps,
        participations=participations,
        poisson=poisson,
    )
    facts = answer.facts
    if certificate is not None:
        facts |= certified(answer, certificate)
    show(facts, print_run, json=json)
