"""Numbers as text: read as people write them, and written with a few digits on the safe side."""

import re
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal

from shoal.errors import ParameterError

_MINUS = str.maketrans(dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufe63\uff0d", "-"))
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_GROUPED = re.compile(r"[+-]?[1-9][0-9]{0,2}(,[0-9]{3})+")
_UNDERSCORED = re.compile(r"[+-]?[0-9]{1,3}(_[0-9]{3})+(\.[0-9]*)?([eE][+-]?[0-9]+)?")
_POINTED = re.compile(r"([+-]?[1-9][0-9]{0,2}\.[0-9]{3})([eE][+-]?0+)?")
_LENGTH = re.compile(r"(.*[0-9.])([smhd]?)")
_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}


def grouped(text: str) -> bool:
    """Tell whether commas stand between groups of exactly three digits, and nowhere else.

    Examples
    --------
    >>> [grouped(text) for text in ("10,000", "1,000,000", "0,500", "10,00", "1,000.5")]
    [True, True, False, False, False]
    """
    return _GROUPED.fullmatch(text.strip()) is not None


def advice(text: str) -> str:
    """Return what to write instead of a number with a comma, or with another dash than the minus; else nothing.

    Examples
    --------
    >>> advice("0,5")
    '; a comma is not a decimal point: write 0.5'
    >>> advice("1,000")
    '; a comma is not a decimal point: write 1.000, or 1_000 if thousands are meant'
    >>> advice("−1")
    '; its minus is the character U+2212, and not the one on the keyboard: write -1'
    >>> advice("ten")
    ''
    """
    text = text.strip()
    plain = text.translate(_MINUS)
    meant = _with_point(plain)
    if not is_number(meant):
        return ""
    if plain != text:
        dash = next(letter for letter, other in zip(text, plain, strict=True) if letter != other)
        return f"; its minus is the character U+{ord(dash):04X}, and not the one on the keyboard: write {meant}"
    if "," not in text:
        return ""
    thousands = f", or {text.replace(',', '_')} if thousands are meant" if grouped(text) else ""
    return f"; a comma is not a decimal point: write {meant}{thousands}"


def _with_point(text: str) -> str:
    """Return a number with the last of its points and commas as the decimal point, if that is what it can be."""
    if text.count(",") > 1 and "." not in text:
        return text.replace(",", "_") if grouped(text) else ""
    last = max(text.rfind("."), text.rfind(","))
    return text if last < 0 else re.sub("[.,]", "", text[:last]) + "." + text[last + 1 :]


def is_number(text: str) -> bool:
    """Tell whether Python takes the text for a number; 0_5 is one too, and so this is not the last word."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def number_in(text: str, name: str, *, such_as: str = "0.5, 1e-6 or 10_000") -> float:
    """Return the number in a text, in which there may be no comma.

    Examples
    --------
    >>> number_in("0.5", "epsilon"), number_in("10_000", "epsilon")
    (0.5, 10000.0)
    >>> number_in("0,5", "epsilon")
    Traceback (most recent call last):
    shoal.errors.ParameterError: epsilon must be a number such as 0.5, 1e-6 or 10_000, got '0,5'; a comma is not a \
decimal point: write 0.5
    """
    # Python itself would take 0_5 for 5.
    if is_number(text) and ("_" not in text or _UNDERSCORED.fullmatch(text.strip())):
        return float(text)
    raise ParameterError(f"{name} must be a number such as {such_as}, got {text!r}{advice(text)}", name)


def count_in(text: str, name: str) -> float:
    """Return the count in a text, in which commas may stand between groups of exactly three digits.

    That it is whole, and large enough, is for `shoal.checks.whole` to say.

    Examples
    --------
    >>> count_in("1,000,000", "reports"), count_in("1e6", "reports")
    (1000000.0, 1000000.0)
    >>> count_in("10.000", "reports")
    Traceback (most recent call last):
    shoal.errors.ParameterError: reports must be a whole number, and 10.000 is 10 to some and 10,000 to others: write \
it without the point
    """
    if grouped(text):
        return float(text.replace(",", ""))
    if pointed := _POINTED.fullmatch(text.strip()):
        both = f"{float(text):g} to some and {int(pointed[1].replace('.', '')):,} to others"
        raise ParameterError(
            f"{name} must be a whole number, and {text.strip()} is {both}: write it without the point", name
        )
    return number_in(text, name, such_as="10000, 10_000, 10,000 or 1e4")


def seconds_in(text: str, name: str) -> float:
    """Return how many seconds there are in a time such as 90, 90s, 10m, 1.5h or 7d.

    Examples
    --------
    >>> seconds_in("24h", "round"), seconds_in("1.5h", "round")
    (86400.0, 5400.0)
    >>> seconds_in("1,5h", "round")
    Traceback (most recent call last):
    shoal.errors.ParameterError: round must be a number of seconds, or such as 10m, 24h or 7d; got '1,5h'; a comma is \
not a decimal point: write 1.5h
    """
    result = _LENGTH.fullmatch(text.strip().lower())
    try:
        if result is not None:
            return count_in(result[1], name) * _UNITS[result[2]]
    except ParameterError:
        pass
    hint = advice(result[1]) + result[2] if result is not None and advice(result[1]) else ""
    raise ParameterError(f"{name} must be a number of seconds, or such as 10m, 24h or 7d; got {text!r}{hint}", name)


def _rounded(value: float | str, digits: int, rounding: str) -> str:
    decimal = Context(prec=digits, rounding=rounding).create_decimal(Decimal(value))
    return f"{float(decimal):.{digits}g}"


def rounded_up(value: float, digits: int = 6) -> str:
    """Return the value with this many significant digits, at least as large.

    Examples
    --------
    >>> rounded_up(0.1234561), rounded_up(1.0), rounded_up(1e-12 / 3)
    ('0.123457', '1', '3.33334e-13')
    """
    return _rounded(value, digits, ROUND_CEILING)


def rounded_down(value: float, digits: int = 6) -> str:
    """Return the value with this many significant digits, at most as large.

    Examples
    --------
    >>> rounded_down(0.1234569)
    '0.123456'
    """
    return _rounded(value, digits, ROUND_FLOOR)


def input_down(value: float, digits: int = 6) -> str:
    """Return the value with this many significant digits; what reads back is at most the value.

    Unlike `rounded_down` it takes the decimals that Python prints: "0.3" reads back as 0.3.

    Examples
    --------
    >>> input_down(5.276887815), input_down(0.3), rounded_down(0.3)
    ('5.27688', '0.3', '0.299999')
    """
    return _rounded(repr(float(value)), digits, ROUND_FLOOR)


def input_up(value: float, digits: int = 6) -> str:
    """Return the value with this many significant digits; what reads back is at least the value.

    Examples
    --------
    >>> input_up(0.8123451), input_up(0.1), rounded_up(0.1)
    ('0.812346', '0.1', '0.100001')
    """
    return _rounded(repr(float(value)), digits, ROUND_CEILING)


def exactly(value: float) -> str:
    """Return the value in the fewest digits that read back as the same.

    Examples
    --------
    >>> exactly(1.0), exactly(0.1), exactly(1.0000004), exactly(1e-6)
    ('1', '0.1', '1.0000004', '1e-06')
    """
    return repr(value).removesuffix(".0")


def number_text(value: float) -> str:
    """Return a number for the tick of an axis: 0.01, 5,000, 10⁶, 2×10⁻⁹.

    Examples
    --------
    >>> [number_text(value) for value in (0.01, 0.25, 5000, 1e4, 1e6, 2e-9, 0)]
    ['0.01', '0.25', '5,000', '10,000', '10⁶', '2×10⁻⁹', '0']
    """
    if value == 0 or 1e-3 <= abs(value) < 99_999.5:
        text = f"{value:,.6f}".rstrip("0").rstrip(".")
    else:
        digits, _, power = f"{value:.3e}".partition("e")
        mantissa = digits.rstrip("0").rstrip(".")
        text = ("" if mantissa == "1" else f"{mantissa}×") + "10" + str(int(power)).translate(_SUPERSCRIPTS)
        text = "-" + text[3:] if mantissa == "-1" else text
    return text.replace("-", "−")
