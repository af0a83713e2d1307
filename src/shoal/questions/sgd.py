"""The question `sgd`: what a run of noisy SGD guarantees."""

import math
from typing import Annotated, Any

from shoal.charts import Axis, Chart
from shoal.digits import rounded_up
from shoal.errors import AskedError
from shoal.questions.copied_code import call, literal, taken
from shoal.questions.parameters import USUAL_DELTA, Count, Flag, Kind, Number, word
from shoal.questions.question import Answer, asks, column
from shoal.sgd.comparisons import compare_samplers, poisson_comparison
from shoal.sgd.guarantees import calibrate, guarantee
from shoal.sgd.run import Run
from shoal.sgd.run_limits import lower_bound
from shoal.sgd.sampler import SAMPLERS

_SAMPLING = Kind("word", lambda text, _: text, lambda: tuple(SAMPLERS))
_WHY_NOT = 'it needs sampling="poisson" to have run, where every example joins a step or not by a coin of its own'


def _python(given: dict[str, Any]) -> list[str]:
    described = {"sampling": "allocation"} if given.get("adjacency") == "add-remove" else {}
    described |= {name: value for name, value in given.items() if name not in ("delta", "epsilon", "poisson")}
    lines = [f"run = {call('shoal.sgd.Run', *taken(described, *described))}"]
    delta = f"delta={literal(given.get('delta', USUAL_DELTA))}"
    if "epsilon" in given:
        lines += [f"run = {call('shoal.sgd.calibrate', 'run', *taken(given, 'epsilon'), delta)}", "print(run)"]
    return [*lines, f"print({call('shoal.sgd.guarantee', 'run', delta)})"]


def _chart(answer: Answer, arguments: dict[str, Any]) -> Chart:
    facts = answer.facts
    calibrated = facts["calibrated"]
    shown = "noise_multiplier" if calibrated else "epsilon"
    rows = [row for row in facts["samplers"] if row[shown] is not None]
    names = Axis("", names=tuple(row["sampling"] for row in rows))
    label = "noise multiplier" if calibrated else "ε"
    chart = Chart(Axis(label), names, "The same run by every sampler", f"The {label} of each sampler, the best first.")
    chart.bars(column(rows, shown), texts=[rounded_up(row[shown], 3) for row in rows])
    return chart


@asks(example="examples=60_000&batch_size=64&noise_multiplier=0.8", python=_python, chart=_chart, seconds=30.0)
def sgd(
    *,
    examples: Count = 0,
    batch_size: Count = 1,
    noise_multiplier: Number | None = None,
    epsilon: Number | None = None,
    delta: Number = USUAL_DELTA,
    clip_norm: Number = 1.0,
    epochs: Count = 1,
    noise: Annotated[str, word("batch", "example")] = "batch",
    releases: Annotated[str, word("every-step", "sums")] = "every-step",
    adjacency: Annotated[str, word("replace", "zero-out", "add-remove")] = "replace",
    sampling: Annotated[str, _SAMPLING] | None = None,
    public_steps: Count | None = None,
    participations: Count = 1,
    poisson: Flag = False,
) -> Answer:
    """Say what a run of noisy SGD guarantees, or how much noise a guarantee needs, without training anything.

    Parameters
    ----------
    examples : int or float
        How many examples there are; 10_000, 1e6 and 1000000 are all fine. It can be left out with
        adjacency = add-remove, where it is a secret.
    batch_size : int or float
        Examples in a step.
    noise_multiplier : float, optional
        The standard deviation of the noise, in units of clip_norm; this or epsilon.
    epsilon : float, optional
        ε that must hold, to get the noise multiplier.
    delta : float
        δ of the guarantee.
    clip_norm : float
        The largest length of an example's gradient.
    epochs : int or float
        Epochs, passes over the data.
    noise : str
        batch: one draw on the sum of a batch; example: one for each of its slots.
    releases : str
        What is seen, with noise = example: every-step, each noised gradient; sums, only what a batch adds up to.
    adjacency : str
        What may happen to one example: replace, or zero-out; or add-remove, with public_steps.
    sampling : str, optional
        How the steps of an epoch are drawn: permutation, allocation, poisson or fixed-order.
    public_steps : int or float, optional
        The steps of an epoch, for allocation and poisson; examples over batch_size if not given.
    participations : int or float
        In how many steps of an epoch an example takes part, with allocation.
    poisson : bool
        Also say what accounting as if by Poisson sampling would print. It is not valid for a run that drew otherwise.

    Returns
    -------
    Answer
        Its result is the `Guarantee`.
    """
    if (noise_multiplier is None) == (epsilon is None):
        raise AskedError("give either {noise_multiplier} (to get ε) or {epsilon} (to get the noise)")
    if not examples and adjacency != "add-remove":
        raise AskedError(
            "this needs {examples}, the number of examples; without it, use {adjacency=add-remove}", "examples"
        )
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
        participations=participations,  # type: ignore[arg-type]
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
    if poisson:
        as_if = poisson_comparison(run, delta=delta)
        known_there = None if math.isnan(as_if.poisson_epsilon) else as_if.poisson_epsilon
        facts["poisson"] = {"epsilon": known_there, "least": as_if.least, "valid": False, "why": _WHY_NOT}
    return Answer(facts, result, lambda: result.certify(delta=delta))
