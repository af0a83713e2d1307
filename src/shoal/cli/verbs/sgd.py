"""The verb `sgd`: what a run of noisy SGD guarantees."""

import math

from shoal.cli.app import TRAINING, app
from shoal.cli.certificates import CertificateFile, certified
from shoal.cli.options import Count, Flag, Json, Number
from shoal.cli.output import show
from shoal.cli.sampling import Sampling
from shoal.cli.train_output import print_run
from shoal.errors import ParameterError
from shoal.sgd.guarantees import guarantee
from shoal.sgd.noise_calibration import calibrate
from shoal.sgd.poisson import poisson_comparison
from shoal.sgd.run import Run
from shoal.sgd.run_limits import lower_bound
from shoal.sgd.sampler_comparison import compare_samplers

__all__ = ["sgd"]

_WHY_NOT = 'it needs sampling="poisson" to have run, where every example joins a step or not by a coin of its own'


@app.command(
    group=TRAINING, help_epilogue="Example:  shoal sgd --examples 60_000 --batch-size 64 --noise-multiplier 0.8"
)
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
    poisson: Flag = False,
    certificate: CertificateFile = None,
    json: Json = False,
) -> None:
    """Say what a run of noisy SGD guarantees, or how much noise a guarantee needs, without training anything.

    Parameters
    ----------
    examples
        how many examples there are; 10_000, 1e6 and 1000000 are all fine. It can be left out with --adjacency
        add-remove, where it is a secret.
    batch_size
        examples in a step.
    noise_multiplier
        the standard deviation of the noise, in units of --clip-norm; this or --epsilon.
    epsilon
        ε that must hold, to get the noise multiplier.
    delta
        δ of the guarantee.
    clip_norm
        the largest length of an example's gradient.
    epochs
        epochs, passes over the data.
    noise
        batch: one draw on the sum of a batch; example: one for each of its slots.
    releases
        what is seen, with --noise example: every-step, each noised gradient; sums, only what a batch adds up to.
    adjacency
        what may happen to one example: replace, or zero-out; or add-remove, with --public-steps.
    public_steps
        the steps of an epoch, for allocation and poisson; examples/batch-size if not given.
    poisson
        also show what accounting as if by Poisson sampling would print. It is not valid for a run that drew otherwise.
    """
    if (noise_multiplier is None) == (epsilon is None):
        raise ParameterError("give either --noise-multiplier (to get ε) or --epsilon (to get the noise)")
    if not examples and adjacency != "add-remove":
        raise ParameterError("this needs --examples, the number of examples; without it, use --adjacency add-remove")
    run = Run(
        examples=examples,  # type: ignore[arg-type]
        batch_size=batch_size,  # type: ignore[arg-type]
        noise_multiplier=noise_multiplier,
        clip_norm=clip_norm,
        epochs=epochs,  # type: ignore[arg-type]
        noise=noise,
        releases=releases,
        adjacency=adjacency,
        sampling=sampling or ("permutation" if adjacency != "add-remove" else "allocation"),
        public_steps=public_steps,  # type: ignore[arg-type]
    )
    if epsilon is not None:
        run = calibrate(run, epsilon=epsilon, delta=delta)
    result = guarantee(run, delta=delta)
    compared = compare_samplers(run, delta=delta, epsilon=epsilon)
    facts = result.to_dict() | {
        "noise_multiplier": run.noise_multiplier,
        # Where the plain bound is all there is, nothing hides the victim, and the limit for unknown orders is idle.
        "best_possible": lower_bound(run, delta=delta) if result.alternatives else None,
        "calibrated": epsilon is not None,
        "samplers": [
            {
                "sampling": each.run.sampling,
                "epsilon": each.epsilon if math.isfinite(each.epsilon) else None,
                "noise_multiplier": each.run.noise_multiplier,
                "bound": each.bound,
                "recommended": index == 0,
            }
            for index, each in enumerate(compared)
        ],
    }
    if certificate is not None:
        facts |= certified(result.certify, certificate)
    if poisson:
        as_if = poisson_comparison(run, delta=delta)
        known_there = None if math.isnan(as_if.poisson_epsilon) else as_if.poisson_epsilon
        facts["poisson"] = {"epsilon": known_there, "least": as_if.least, "valid": False, "why": _WHY_NOT}
    show(facts, print_run, json=json)
