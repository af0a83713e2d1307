"""Questions at random, mostly nonsense: any name, any value, any text, and numbers of every size."""

from typing import Any

from hypothesis import strategies as st

from shoal.questions.question import names, question
from shoal.web.reply import FORMS

_NAMES = sorted({name for each in names() for name in question(each).parameters} | {"as"})
_SENSIBLE: dict[str, list[str]] = {
    "count": ["1", "2", "10", "1000", "10_000", "1e6", "1e9", "1e15", "0", "-1", "1.5", "1,000", "1e300"],
    "number": ["0", "1e-300", "1e-6", "0.01", "0.5", "1", "2", "8", "50", "700", "1e6", "-1", "nan", "inf", "0,5"],
    "flag": ["true", "false", "1", "no"],
    "day": ["2026-01-01", "0001-01-01", "9999-12-31", "2026-02-30"],
    "word": ["tightest", "rappor", "gaussian", "laplace", "strong-clones", "renyi", "delta", "reports", "poisson", ""],
}
_GOOD: dict[str, list[str]] = {
    "reports": ["1", "10", "1000", "10_000", "1e6", "1e9", "1e15"],
    "local_epsilon": ["0", "1e-6", "0.5", "1", "2", "8", "50"],
    "categories": ["2", "3", "100", "1e6"],
    "examples": ["1", "1000", "1e6"],
    "delta": ["0", "1e-300", "1e-6", "0.01", "0.5"],
    "noise_multiplier": ["0.1", "1", "10"],
    "epsilon": ["1e-6", "0.1", "1", "10"],
    "rounds": ["1", "30", "365", "1e6"],
    "points": ["0", "2", "5"],
}
"""Values that make sense of their own, but perhaps not together."""
_TEXTS = [
    "",
    "{}",
    "[" * 2000,
    '{"format": "shoal-ledger", "version": 1, "budget": null, "entries": []}',
    "reports,local_epsilon\n1000,1\n",
    "reports,local_epsilon,rounds,date\n10,1,1000000,2026-01-01\n1e9,0.1,3,2027-01-01\n",
    "reports\n1\n",
    '{"claim": 1}',
]
_any_text = st.text(max_size=30)
_huge = st.one_of(
    st.integers(-(10**40), 10**40).map(str),
    st.floats().map(repr),
    st.integers(-400, 400).map(lambda power: f"1e{power}"),
)


@st.composite
def requests(draw: st.DrawFn) -> tuple[str, list[tuple[str, str]], str | None]:
    """Return the name of a question, its parameters as pairs, and the text of a file or nothing."""
    name = draw(st.sampled_from(names())) if draw(st.integers(0, 19)) else draw(_any_text)
    known: dict[str, Any] = dict(question(name).parameters) if name in names() else {}
    pairs, tame = [], draw(st.booleans())
    for key, each in known.items():
        if tame and key in _GOOD:
            if each.required or key == "local_epsilon" or draw(st.booleans()):
                pairs.append((key, draw(st.sampled_from(_GOOD[key]))))
            continue
        if tame and draw(st.integers(0, 4)):
            continue
        if each.kind != "text" and (each.required or draw(st.integers(0, 2)) == 0):
            usual = st.sampled_from(_SENSIBLE[each.kind])
            pairs.append((key, draw(usual if draw(st.integers(0, 3)) else st.one_of(_huge, _any_text))))
    if draw(st.integers(0, 9)) == 0:
        pairs.append((draw(st.one_of(st.sampled_from(_NAMES), _any_text)), draw(st.one_of(_huge, _any_text))))
    if draw(st.integers(0, 3)) == 0:
        pairs.append(("as", draw(st.sampled_from(FORMS))))
    takes_file = name in names() and question(name).handed_over is not None
    if not takes_file and draw(st.integers(0, 19)):
        return name, pairs, None
    return name, pairs, draw(st.one_of(st.none(), st.sampled_from(_TEXTS), st.text(max_size=300)))
