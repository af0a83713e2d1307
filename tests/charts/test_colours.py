"""The palette: everything can be read on its paper, and hues can be told apart."""

import itertools

import pytest

from shoal.charts.colours import DARK, HUES, KINDS, LIGHT, STYLE


def _luminance(colour: str) -> float:
    """Relative luminance as WCAG 2 defines it."""
    parts = [int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _contrast(one: str, two: str) -> float:
    low, high = sorted((_luminance(one), _luminance(two)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", [LIGHT, DARK], ids=["light", "dark"])
def test_text_in_every_colour_can_be_read(scheme: dict[str, str]) -> None:
    assert {name for name in scheme if _contrast(scheme[name], scheme["paper"]) < 4.5} == {"paper", "grid"}


@pytest.mark.parametrize("scheme", [LIGHT, DARK], ids=["light", "dark"])
def test_hues_differ(scheme: dict[str, str]) -> None:
    for one, two in itertools.combinations([scheme[hue] for hue in HUES], 2):
        apart = sum((int(one[i : i + 2], 16) - int(two[i : i + 2], 16)) ** 2 for i in (1, 3, 5)) ** 0.5
        assert apart > 45, (one, two)


def test_both_schemes_have_the_same_names() -> None:
    assert LIGHT.keys() == DARK.keys()
    assert {kind.colour for kind in KINDS.values()} - {""} <= LIGHT.keys()
    assert all(STYLE.count(f"--shoal-{name}:") == 5 for name in LIGHT)
