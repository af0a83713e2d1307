"""Letters that a terminal does not have, spelled in those that it has: ε = 1 becomes epsilon = 1."""

import codecs
import io
import unicodedata
from typing import TextIO

__all__ = ["spell_out", "spelled"]

_SIGNS = {
    **{"λ": "lambda", "≤": "<=", "≥": ">=", "≠": "!=", "≈": "~", "∞": "infinity", "√": "sqrt", "∈": "in", "±": "+-"},
    **{"∝": "proportional to"},
    **{"⌊": "floor(", "⌋": ")", "⌈": "ceil(", "⌉": ")", "→": "->", "·": "*", "×": "x", "−": "-", "–": "-", "—": "-"},
    **{"∫": "integral", "∓": "-+", "‖": "||", "⟨": "<", "⟩": ">", "≡": "=", "↵": "(end of line)", "″": "''"},
    **dict.fromkeys("‐‑‒―₋", "-"),
    **dict.fromkeys("├└", "+"),
    **{"′": "'", "‘": "'", "’": "'", "“": '"', "”": '"', "█": "#", "▒": ":", "│": "|", "─": "-"},
    **dict.fromkeys("╭╮╰╯", "+"),
}


def spelled(letter: str) -> str:
    """Return a letter in ASCII, or a question mark if there is no way to spell it.

    Examples
    --------
    >>> spelled("Δ"), "".join(map(spelled, "ε₀")), spelled("≤"), spelled("²"), spelled("é"), spelled("中")
    ('Delta', 'epsilon0', '<=', '^2', 'e', '?')
    """
    if letter in _SIGNS:
        return _SIGNS[letter]
    words = unicodedata.name(letter, "").split()
    if words[:1] == ["GREEK"] and "LETTER" in words:
        return words[-1].capitalize() if "CAPITAL" in words else words[-1].lower()
    parts = unicodedata.normalize("NFKD", letter).encode("ascii", "ignore").decode()
    if words[:1] == ["SUPERSCRIPT"]:
        return f"^{parts}"
    unseen = unicodedata.combining(letter) or unicodedata.category(letter) == "Cf"  # such as a byte order mark
    return parts or ("" if unseen else "?")


def _spell(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    return "".join(map(spelled, error.object[error.start : error.end])), error.end


codecs.register_error("shoal-spelled", _spell)


def spell_out(stream: TextIO | None) -> None:
    """Let a stream spell what its encoding does not have."""
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="shoal-spelled")
