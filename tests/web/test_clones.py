"""The kernel of the page that needs no server: never below Python, and close to it, in a real browser."""

import itertools
import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Browser

import shoal
from shoal.pairs import ClonePair
from tests.exhaustive import representative

STATIC = Path(shoal.__file__).parent / "web" / "static"
RELATIVE, ABSOLUTE = 1e-6, 1e-12

pytestmark = pytest.mark.slow


def _points() -> list[tuple[int, float, float]]:
    """Return corners of what the page allows, and points between them."""
    reports = (1, 2, 3, 5, 10, 50, 10**3, 10**5, 10**7, 3 * 10**7, 10**8, 10**10, 10**12)
    corners = itertools.product(
        reports, (0.001, 0.01, 0.1, 0.5, 1.0, 2.0, 4.0, 7.0, 10.0, 14.0, 16.0), (1e-20, 1e-12, 1e-6, 1e-2, 0.5)
    )
    rng = random.Random(6)
    between = (
        (int(10 ** rng.uniform(0, 12)), 10 ** rng.uniform(-3, 1.2), 10 ** rng.uniform(-20, -0.4)) for _ in range(1500)
    )
    return [*representative(corners, 200), *representative(between, 200)]


def test_the_kernel_is_never_below_python_and_close_to_it(browser: Browser, served: Callable[[Path], str]) -> None:
    points = _points()
    page = browser.new_page()
    page.goto(f"{served(STATIC)}/icon.svg")
    answers = page.evaluate(
        """async (points) => {
            const { amplified, profile } = await import("./clones.js");
            return points.map(([reports, local, delta]) => {
                const epsilon = amplified(reports, local, delta);
                return [epsilon, profile(reports, local)(epsilon), profile(reports, local)(epsilon / 2)];
            });
        }""",
        points,
    )
    page.close()
    for (reports, local, delta), (epsilon, reached, half) in zip(points, answers, strict=True):
        curve = shoal.amplify(local_epsilon=local, reports=reports, bound="strong-clones")
        lower, upper = curve.epsilon_bracket(delta)
        assert lower <= epsilon <= upper * (1 + RELATIVE) + ABSOLUTE, (reports, local, delta)
        assert reached <= delta
        # δ elsewhere: the lower end of the exact value is not above it.
        below = ClonePair(reports, local, "strong-clones").brackets(np.array([epsilon / 2]), 1e-9)[0][0]
        assert below <= half, (reports, local, delta)


def test_the_answer_is_compared_without_logarithms(browser: Browser, served: Callable[[Path], str]) -> None:
    """Next to a value of δ the logarithm is the same, and the first guess, ε₀/2 for few reports, would be accepted."""
    page = browser.new_page()
    page.goto(f"{served(STATIC)}/icon.svg")
    reached = page.evaluate(
        """async () => {
            const { amplified, profile } = await import("./clones.js");
            return [0.5, 1, 2].map((local) => {
                const delta = profile(3, local)(local / 2) * (1 - 2 ** -53);
                return [profile(3, local)(amplified(3, local, delta)), delta];
            });
        }"""
    )
    page.close()
    assert all(value <= delta for value, delta in reached)
