"""Numbers as text, cut to a few digits on the safe side: a guarantee is rounded up, a lower limit down.

A number that a user types into a later command is rounded to the side on which it still works there:
ε₀ down, noise up.
"""

from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal

__all__ = ["exactly", "input_down", "input_up", "rounded_down", "rounded_up"]


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
