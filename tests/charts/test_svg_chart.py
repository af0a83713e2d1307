"""Charts as SVG: valid, without scripts, with their numbers, and labels that never overlap."""

import itertools
import math
import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.charts import STYLE, Axis, Chart
from shoal.charts.chart_parts import clipped, samples
from shoal.charts.label_positions import Box
from shoal.charts.svg_writer import laid_out
from shoal.errors import ParameterError
from shoal.shown import printable

_SVG = "{http://www.w3.org/2000/svg}"
_NASTY = '<script>alert("1")</script> & \' \x00 \ud800 \u202e $x$ ]]>'


def _curves(count: int = 3, *, width: float = 640.0, height: float | None = None) -> Chart:
    chart = Chart(Axis("people", "log"), Axis("ε", "log"), "Curves", "They fall.", width=width, height=height)
    xs = np.geomspace(1e3, 1e6, 20)
    for index in range(count):
        chart.line(xs, (1 + index / 3) / np.sqrt(xs), f"bound {index}")
    return chart


def _bars(names: tuple[str, ...] = ("red", "green")) -> Chart:
    chart = Chart(Axis("", names=names), Axis("frequency"), "Bars")
    values = np.linspace(0.5, 0.1, len(names))
    chart.bars(values, lower=values - 0.05, upper=values + 0.05, label="estimate", interval="95 % interval")
    return chart


def _read(chart: Chart, *, style: bool = True) -> ET.Element:
    return ET.fromstring(chart.svg(style=style))


def test_it_is_an_image_with_a_name_and_a_description() -> None:
    root = _read(_curves())
    assert root.tag == f"{_SVG}svg"
    assert root.get("role") == "img"
    assert root[0].tag == f"{_SVG}title"
    assert root[0].text == "Curves"
    assert root[1].tag == f"{_SVG}desc"
    assert root[1].text == "They fall."
    assert root.get("viewBox") == "0 0 640 396.8"


def test_numbers_are_in_attributes() -> None:
    root = _read(_curves(1))
    (line,) = root.findall(f"{_SVG}path[@class='shoal-line']")
    xs = [float(x) for x in line.get("data-xs", "").split()]
    ys = [float(y) for y in line.get("data-ys", "").split()]
    assert xs == np.geomspace(1e3, 1e6, 20).tolist()
    assert ys == (1 / np.sqrt(xs)).tolist()
    facts = {name: float(root.get(f"data-{name}", "nan")) for name in ("left", "right", "x-low", "x-high")}
    assert root.get("data-x-scale") == "log"
    first = float(re.findall(r"M([\d.]+)", line.get("d", ""))[0])
    part = math.log(xs[0] / facts["x-low"]) / math.log(facts["x-high"] / facts["x-low"])
    assert first == pytest.approx(facts["left"] + part * (facts["right"] - facts["left"]), abs=0.01)
    bar, other = _read(_bars()).findall(f"{_SVG}rect[@class='shoal-bar']")
    assert (bar.get("data-name"), bar.get("data-value"), bar.get("data-upper")) == ("red", "0.5", "0.55")
    assert other.get("data-name") == "green"


def test_no_script_no_link_no_attribute_of_style() -> None:
    chart = _bars((_NASTY, "b"))
    chart.title = chart.description = _NASTY
    chart.dots([0.1, 0.2], _NASTY)
    chart.level(0.3, _NASTY)
    curves = _curves(1)
    curves.line([1e3, 1e6], [1, 2], _NASTY)
    curves.mark(1e4, 0.01, _NASTY)
    for root in (_read(chart), _read(curves), _read(chart, style=False)):
        for element in root.iter():
            assert element.tag.removeprefix(_SVG) in {"svg", "title", "desc", "style", "rect", "path", "text", "circle"}
            assert not {"style", "href", "id", "onload", "onclick"} & element.attrib.keys()
    assert _read(chart).find(f"{_SVG}style") is not None
    assert _read(chart, style=False).find(f"{_SVG}style") is None
    assert "url(" not in STYLE
    assert "@import" not in STYLE


def test_colours_are_variables_with_what_they_are_on_light_paper() -> None:
    text = _curves().svg(style=False)
    paints = re.findall(r'(?:fill|stroke)="([^"]*)"', text)
    assert all(paint == "none" or re.fullmatch(r"var\(--shoal-\w+, #[0-9a-f]{6}\)", paint) for paint in paints)
    assert "prefers-color-scheme:dark" in STYLE


def test_what_is_not_a_number_breaks_the_line() -> None:
    chart = Chart(Axis("x"), Axis("y", "log"), "Broken")
    chart.line([0, 1, 2, 3, 4, 5], [1, 2, math.nan, 3, math.inf, 0], "a")
    (line,) = _read(chart).findall(f"{_SVG}path[@class='shoal-line']")
    assert line.get("d", "").count("M") == 2
    assert line.get("data-ys") == "1.0 2.0 NaN 3.0 NaN 0.0"


def test_fixed_ends_cut_lines_off() -> None:
    chart = Chart(Axis("x", low=0, high=10), Axis("y", low=0, high=1), "Cut")
    chart.line([-5, 15], [-0.5, 1.5], "a")
    chart.mark(20, 0.5, "never seen")
    chart.level(7, "nor this")
    root, layout = _read(chart), laid_out(chart)
    (line,) = root.findall(f"{_SVG}path[@class='shoal-line']")
    numbers = list(map(float, re.findall(r"[\d.]+", line.get("d", ""))))
    area = layout.area
    assert numbers == pytest.approx([area.left, area.bottom, area.right, area.top], abs=0.01)
    assert (root.get("data-x-low"), root.get("data-x-high")) == ("0", "10")
    assert not root.findall(f"{_SVG}circle")
    assert not root.findall(f"{_SVG}path[@class='shoal-level']")


def _check_labels(chart: Chart) -> None:
    """Every text is within the picture, and none over another; turned ones are parallel, and a line apart."""
    layout = laid_out(chart)
    texts = [text for text in layout.texts if not text.turned]
    page = Box(0, 0, chart.width, layout.height)
    for text in texts:
        assert text.box.inside(page), text
    for one, two in itertools.combinations(texts, 2):
        assert not one.box.overlaps(two.box), (one, two)
    turned = [text for text in layout.texts if text.turned]
    for one, two in itertools.pairwise(turned):
        assert (two.x - one.x) * math.sin(math.radians(60)) >= 1.2 * one.size
    # No label has disappeared.
    written = {text.whole or text.text for text in layout.texts}
    assert {line.label for line in chart.lines if line.label} <= written


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(60))
def test_labels_never_overlap(seed: int) -> None:
    rng = np.random.default_rng(seed)
    scales = ("log", "linear")
    chart = Chart(
        Axis("x " * rng.integers(1, 30), scales[seed % 2]),
        Axis("y", scales[seed // 2 % 2]),
        "A title " * rng.integers(1, 20),
        width=float(rng.integers(320, 1000)),
        height=float(rng.integers(240, 700)),
    )
    xs = np.sort(10 ** rng.uniform(0, 6, 12))
    for index in range(rng.integers(0, 18)):
        ys = 10 ** rng.uniform(-4, 1) * (xs ** rng.uniform(-1, 0.2)) * np.exp(rng.normal(0, 0.05, 12))
        end = rng.integers(3, 13)
        chart.line(xs[:end], ys[:end], f"line {index} " + "of many letters " * (rng.integers(0, 9) // 4))
    for index in range(rng.integers(0, 4)):
        chart.level(10 ** rng.uniform(-4, 1), f"level {index}", upright=bool(rng.integers(0, 2)))
    for index in range(rng.integers(0, 4)):
        chart.mark(rng.choice(xs), 10 ** rng.uniform(-4, 1), f"mark {index}: ε = 0.123456")
    _check_labels(chart)


@pytest.mark.parametrize("count", [1, 3, 30, 60])
@pytest.mark.parametrize("upright", [True, False])
def test_labels_of_bars_never_overlap(count: int, upright: bool) -> None:
    names = tuple(f"category {index} " + "of a long name " * (index % 4) for index in range(count))
    values = np.linspace(0.4, 0.001, count)
    sides = (Axis("what", names=names), Axis("frequency")) if upright else (Axis("ε", "log"), Axis("", names=names))
    chart = Chart(*sides, "Bars")
    chart.bars(values, texts=[f"{value:.3g}" for value in values], label="estimate")
    chart.level(0.1, "a level")
    chart.level(0.11, "another level")
    _check_labels(chart)


def test_a_long_key_makes_the_picture_higher() -> None:
    chart = _curves(40, width=400.0, height=300.0)
    layout = laid_out(chart)
    assert sum(text.role == "key" for text in layout.texts) == 40
    assert layout.height > chart.pixels_high
    assert layout.area.bottom - layout.area.top >= 0.39 * chart.pixels_high
    assert laid_out(_curves(5, width=400.0, height=300.0)).height == 300


_numbers = st.floats(allow_nan=True, allow_infinity=True, width=64)


@given(st.lists(st.tuples(_numbers, _numbers), max_size=8), st.text(max_size=30), st.sampled_from(["log", "linear"]))
def test_any_numbers_and_any_text_give_valid_svg(points: list[tuple[float, float]], text: str, scale: str) -> None:
    chart = Chart(Axis(text, scale), Axis(text, scale), text, text)
    chart.line([x for x, _ in points], [y for _, y in points], text)
    chart.band([x for x, _ in points], [y for _, y in points], [y for _, y in points], text)
    for x, y in points:
        chart.mark(x, y, text)
        chart.level(y, text)
    root = _read(chart)
    bars = Chart(Axis("", names=(text, "b")), Axis("y", scale), text)
    bars.bars([(points or [(1.0, 1.0)])[0][0], 1.0])
    _read(bars)
    for element in root.iter(f"{_SVG}path"):
        assert not re.search("nan|inf|e[+-]", element.get("d", ""))


def test_days_as_ticks() -> None:
    chart = Chart(Axis("", ticks=((0, "1 May"), (31, "1 June"), (61, "1 July"))), Axis("ε"), "Days")
    chart.line([0, 40], [0, 1])
    assert [text.text for text in laid_out(chart).texts if text.role == "x-tick"] == ["1 May", "1 June"]


def test_what_cannot_be_drawn_is_said() -> None:
    chart = _curves(0)
    with pytest.raises(ParameterError, match="ys must be 2 numbers, got 1"):
        chart.line([1, 2], [1])
    with pytest.raises(ParameterError, match="did you mean guarantee"):
        chart.line([1], [1], kind="garantee")
    with pytest.raises(ParameterError, match="axis with names"):
        chart.bars([1])
    with pytest.raises(ParameterError, match="axis with names"):
        chart.dots([1], "truth")
    with pytest.raises(ParameterError, match="texts must be 2"):
        _bars().bars([1, 2], texts=["1"])
    with pytest.raises(ParameterError, match="only one axis"):
        Chart(Axis("", names=("a",)), Axis("", names=("a",)), "")
    with pytest.raises(ParameterError, match="pixels wide"):
        Chart(Axis(""), Axis(""), "", width=1)


_AREA = Box(0.0, 0.0, 10.0, 10.0)
_points = st.lists(st.tuples(st.floats(-30, 30), st.floats(-30, 30)), max_size=8)


@given(_points)
def test_what_is_seen_is_all_that_is_in_the_area(points: list[tuple[float, float]]) -> None:
    seen = samples(clipped(points, _AREA), 0.5)
    grown = Box(-1e-9, -1e-9, 10 + 1e-9, 10 + 1e-9)
    assert all(grown.holds(point) for point in seen)
    inner = Box(0.1, 0.1, 9.9, 9.9)
    for point in samples([points], 0.7) if points else []:
        if inner.holds(point):
            assert min(math.dist(point, other) for other in seen) < 0.6


@given(st.text())
def test_printable_texts_are_valid_in_xml(text: str) -> None:
    assert all(
        letter == "\ufffd" or 0x20 <= ord(letter) < 0xD800 or 0xE000 <= ord(letter) < 0xFFFE or ord(letter) > 0xFFFF
        for letter in printable(text)
    )
