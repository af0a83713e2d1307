"""Labels: none over another, where they hide least, and not wider than they are taken for."""

import pytest

from shoal.charts.label_positions import Box, free_box, shortened, text_width


def test_a_free_box_is_in_the_area_and_hides_least() -> None:
    area, taken = Box(0, 0, 100, 100), [Box(0, 0, 50, 50)]
    choices = [Box(40, 40, 60, 60), Box(90, 90, 110, 110), Box(50, 50, 70, 70), Box(80, 80, 99, 99)]
    assert free_box(choices, taken, area) == choices[2]
    assert free_box(choices, taken, area, [(60.0, 60.0)]) == choices[3]
    assert free_box(choices[:2], taken, area) is None


@pytest.mark.parametrize(
    "text",
    [
        "strong-clones-sharp-form",
        "ε = 0.0409509 at δ = 10⁻⁶",
        "RecursiveHadamardResponse",
        "12,345,678 shuffled reports, each with ε₀ = 1",
        "PrivateIndependentRappor",
        "trusted curator",
        "MMMM WWWW",
        "illicit little lilliputian",
        "spent after 256 rounds, 3 March 2027",
        "95 % interval",
    ],
)
def test_it_is_at_least_that_of_a_wide_font(text: str) -> None:
    """DejaVu Sans is wider than the fonts of most systems."""
    text_path = pytest.importorskip("matplotlib.textpath")
    properties = pytest.importorskip("matplotlib.font_manager").FontProperties(family="DejaVu Sans", size=100)
    width, _, _ = text_path.text_to_path.get_text_width_height_descent(text, properties, ismath=False)
    assert width / 100 <= text_width(text, 1.0) <= 1.35 * width / 100


def test_shortened_fits() -> None:
    for room in range(20, 300, 7):
        assert text_width(shortened("a rather long name of a category", 12, room), 12) <= room
