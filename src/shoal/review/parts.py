"""Parts that every review has: the attacker's success, implementation, what people fill in, how to check the page."""

import math
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from typing import Any

import shoal
from shoal.assumptions import COLLUDE
from shoal.attack import attack_bound
from shoal.digits import exactly, rounded_up
from shoal.errors import NoPairError, RangeError, UnreachableError
from shoal.proofs.certificate import Certificate
from shoal.review.review_document import proved_sentence
from shoal.review.statement import Chart, Field, Item, Line, Section, Statement, Table
from shoal.rounding import up

_ALARMS = (0.001, 0.01, 0.1)
_FEWEST, _DECADES, _STEPS = 1e-4, 3.95, 48
_IDLE, _POINTS = 1e-8, 24
_MOST_EPSILON = 30.0
"""Beyond it any attack may succeed."""
_UNCHECKED = (
    "To check the lines that are marked as computed, run `shoal review` again with the same inputs, and compare the "
    "pages. Only people can check what is assumed or declared."
)
_PEOPLE = (
    ("Purpose", "what is learned, and who needs to know it"),
    ("Owner", "who answers for it, and how to reach them"),
    ("Retention", "how long data and results are kept"),
    ("Approved by", "name and date"),
)


def percent(share: float) -> str:
    """Return a share as percent, rounded up.

    Examples
    --------
    >>> percent(0.01), percent(0.0103164)
    ('1 %', '1.032 %')
    """
    short = f"{share:.3g}"
    if share == float(short):
        return f"{float(Decimal(short) * 100):g} %"
    return f"{rounded_up(up(100 * share, roundings=2), 4)} %"


def certified(prove: Callable[[], Certificate]) -> tuple[Certificate | None, str]:
    """Return the proof, or none and why there is none."""
    try:
        return prove(), ""
    except (NoPairError, RangeError, UnreachableError) as error:
        return None, f"It has no certificate: {error}."


def guaranteed(certificate: Certificate | None, otherwise: str, theorem: str, bound: str) -> Iterator[Item]:
    """Yield the guarantee, proved if it is, and the theorem behind it."""
    if certificate is None:
        yield Statement("computed", f"{otherwise} This holds if the assumptions below do.")
    else:
        yield Statement("proved", proved_sentence(certificate))
    yield Statement("computed", f"Theorem: {theorem}. Evaluated by shoal {shoal.__version__}, bound {bound}.")


def assumed(rows: Sequence[tuple[str, str, str]]) -> Iterator[Item]:
    """Yield assumptions: what, why it holds here (if nothing, there is a field), and what is left if it fails."""
    head = ("assumption", "why it holds here", "if it fails")
    texts = tuple(("assumed", text, why or "to fill in below", otherwise) for text, why, otherwise in rows)
    yield Table("Each of these has to hold", head, texts)
    yield from (Field("Why it holds here", text) for text, why, _ in rows if not why)


def epsilon_at(curve: shoal.PrivacyCurve, delta: float) -> float:
    """Return ε at δ, infinite where there is no guarantee."""
    try:
        return curve.epsilon(delta)
    except (RangeError, UnreachableError):
        return math.inf


def epsilon_text(curve: shoal.PrivacyCurve, delta: float) -> str:
    """Return ε at δ, rounded up, or that there is none."""
    epsilon = epsilon_at(curve, delta)
    return rounded_up(epsilon) if math.isfinite(epsilon) else "no guarantee"


def alone(curve: shoal.PrivacyCurve, delta: float) -> str | None:
    """Return in words what the randomizers guarantee by themselves, or None if that is nothing."""
    if math.isfinite(curve.local_epsilon):
        return f"ε₀ = {rounded_up(curve.local_epsilon)}" + (
            f" with δ₀ = {rounded_up(curve.local_delta)}" if curve.local_delta else ""
        )
    if COLLUDE in curve.assumptions:
        return None
    if hasattr(curve.profile, "alone"):
        return f"ε = {rounded_up(curve.profile.alone(delta))} at δ = {exactly(delta)}"
    return "what the noise of each report keeps by itself, of which this page says no number"


def along(curve: shoal.PrivacyCurve) -> Callable[[float], float]:
    """Return about the largest rate of recognising a person, never below it, for many rates of false alarms at once."""
    try:
        idle = curve.epsilon(_IDLE)
    except (RangeError, UnreachableError):  # δ never falls so far, or the bound does not go so far
        idle = math.inf
    most = min(idle, curve.local_epsilon, _MOST_EPSILON)
    epsilons = [most * (step / _POINTS) ** 2 for step in range(_POINTS + 1)]
    points = [(epsilon, curve.delta(epsilon)) for epsilon in epsilons]
    return lambda alarms: min(attack_bound(epsilon, delta, alarms) for epsilon, delta in points)


def attacks(
    success: Callable[[float], float],
    line: Callable[[float], float],
    single: Callable[[float], float] | None,
    label: str,
    what: str = "which of two values one person reports",
) -> Iterator[Item]:
    """Yield what an attacker can do: a table and a picture.

    `success` returns the largest rate of recognising a person for a rate of false alarms; `line` does so for the
    picture, quicker, and `single` for one report alone. The attacker guesses `what`, one of two.
    """
    rows = []
    for alarms in _ALARMS:
        rate = success(alarms)
        rows.append(("computed", percent(alarms), percent(rate), rounded_up(up(rate / alarms, roundings=2), 3)))
    levels = tuple(_FEWEST * 10 ** (_DECADES * step / _STEPS) for step in range(_STEPS + 1))
    lines = [Line("guessing", "limit", levels, levels)]
    for made, name, kind in ((line, label, "guarantee"), (single, "one report alone", "local")):
        if made is not None:
            lines.insert(0, Line(name, kind, levels, tuple(made(alarms) for alarms in levels)))
    yield Statement(
        "computed",
        f"An attacker knows all data, but not {what}. A false alarm is to say that it is the second where it is the "
        "first. Whoever raises at most so many of them recognises the second, where it is that, at most as often as "
        "this table says, if the assumptions above hold.",
    )
    yield Table("Success of the best attack", ("false alarms", "right, at most", "times guessing"), tuple(rows))
    yield Chart(
        "computed",
        "How often the best attack can be right",
        "The largest rate of recognising a person against the rate of false alarms, with guessing as the diagonal.",
        "false alarms",
        "right, at most",
        _FEWEST,
        1.0,
        tuple(lines),
    )


def implementation(mechanism: Any, runs: str = "") -> Iterator[Item]:
    """Yield how a randomizer is implemented, with who runs it, or fields for one that is not shoal's."""
    if not type(mechanism).__module__.startswith("shoal."):
        yield Field("Randomizer", "which program randomizes, where its random bits come from, and who has checked it")
        yield Field("Floating point, side channels", "whether its noise is exact, and what its timing or size tells")
        return
    if not runs:
        runs = f"Each person runs {mechanism!r}"
        if mechanism.added:
            runs = f"Each person sends what is true. Whoever adds dummies runs {mechanism!r}"
    yield Statement("declared", f"{runs} of shoal {shoal.__version__}.")
    yield Statement(
        "declared",
        "In shoal, random bits come from the operating system's generator, or from AES-256 with a key from there. They "
        "are compared with whole numbers: a report is no floating-point number with noise added to it.",
    )
    yield Statement(
        "assumed",
        "All reports have the same length when they are sent, and nobody measures on a person's device how long "
        "randomizing takes.",
    )


def to_fill_in(*more: tuple[str, str]) -> Section:
    """Return the section with what only people can say."""
    return Section("For people to fill in", tuple(Field(label, hint) for label, hint in (*_PEOPLE, *more)))


def checking(certificate: Certificate | None) -> Section:
    """Return the section that says how to check the page."""
    if certificate is None:
        texts: tuple[str, ...] = ("Nothing on this page is proved by a certificate.", _UNCHECKED)
    else:
        texts = (
            "On the command line: `shoal verify` with this file proves the certificate again in ball arithmetic. It "
            "checks that every line marked as proved is what the certificate proves, and that the page shows what its "
            "own data contains, apart from the fields that people fill in.",
            "`shoal verify` checks no other line: if somebody changes one, in the page and in its data, the page still "
            f"verifies. {_UNCHECKED}",
            "In a browser: drop this file on the panel Verify of `shoal web`.",
            "By hand: the certificate below is JSON. It names its theorem and its assumptions, and has every number in "
            "decimals and, exactly, in hexadecimal digits.",
        )
    return Section("How to check this page", tuple(Statement("declared", text) for text in texts))
