"""The verb `audit`: whether a mechanism keeps its promise, from many runs of it."""

from typing import Any

from shoal.auditing import audit
from shoal.cli.app import OTHER, app
from shoal.cli.options import Count, Json, MechanismName, Number
from shoal.cli.output import show
from shoal.digits import rounded_down, rounded_up
from shoal.questions.setting import randomizer_of


@app.command(
    group=OTHER,
    name="audit",
    help_epilogue="Example:  shoal audit --mechanism rappor --categories 10 --local-epsilon 1",
)
def audit_mechanism(
    *,
    mechanism: MechanismName,
    local_epsilon: Number,
    categories: Count | None = None,
    trials: Count = 1e6,
    confidence: Number = 0.999,
    first: Number | None = None,
    second: Number | None = None,
    json: Json = False,
) -> int:
    """Run a mechanism on two inputs many times: a lower bound on its ε₀, and whether it is above what is claimed.

    Exit status 1 if the claim is refuted. The coins are those of real reports.

    Parameters
    ----------
    local_epsilon
        ε₀ that it is to have.
    categories
        over how many categories.
    trials
        how often to run it on each of the two inputs; 10_000, 1e6 and 1000000 are all fine.
    confidence
        of the lower bound.
    first
        the one input; 0 if not given.
    second
        the other; 1 if not given.
    """
    result = audit(
        randomizer_of(mechanism, "mechanism", local_epsilon=local_epsilon, categories=categories),
        trials=trials,
        confidence=confidence,
        first=_input(first, categories),
        second=_input(second, categories),
    )
    show(result.to_dict(), _print_audit, json=json)
    return 0 if result.passed else 1


def _input(value: float | None, categories: float | None) -> float | None:
    """Return a category as the whole number it is."""
    return int(value) if value is not None and categories is not None and value == int(value) else value


def _print_audit(facts: dict[str, Any]) -> None:
    claim = f"claimed {rounded_up(facts['claimed'])}"
    bound = f"ε₀ ≥ {rounded_down(facts['lower'])} with confidence {facts['confidence']:.12g}, {claim}"
    schema = dict(facts["mechanism"])
    name, _ = schema.pop("mechanism"), schema.pop("version")
    print(f"passed: {bound}" if facts["passed"] else f"VIOLATION: {bound}")
    print(f"mechanism  {', '.join((name, *(f'{key} = {value}' for key, value in schema.items())))}")
    print(f"inputs     {facts['first']} and {facts['second']}, {facts['trials']:,} trials each")
    print(f"event      {facts['event']}")
    if facts["passed"]:
        print(
            "meaning    these trials found no violation for these two inputs; they do not prove the claim, which rests "
            "on the proof of the mechanism"
        )
