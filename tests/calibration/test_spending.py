"""Spending: ε against the number of rounds is what compose says, and the budget lasts exactly as long as it says."""

import math
from datetime import date, timedelta
from itertools import pairwise

import pytest

import shoal
from shoal.calibration.spending import Spending, Stretch
from shoal.composition.budget import Budget
from shoal.errors import ParameterError
from tests.exhaustive import EXHAUSTIVE, representative

DAILY = shoal.amplify(local_epsilon=2, reports=1_000_000)
WEEKLY = shoal.amplify(local_epsilon=4, reports=1_000_000)
DAY = timedelta(days=1)


def budget(epsilon: float) -> Budget:
    return Budget(epsilon, 1e-6, planned=True)


@pytest.mark.slow
def test_epsilon_of_the_first_rounds() -> None:
    spending = Spending((Stretch(DAILY, 3), Stretch(WEEKLY, 2)), 1e-6)
    assert spending.total == 5
    assert spending.rounds(2) == ((DAILY, 2),)
    assert spending.rounds(4) == ((DAILY, 3), (WEEKLY, 1))
    assert spending.rounds(9) == ((DAILY, 3), (WEEKLY, 6))
    assert spending.epsilon(2) == DAILY.repeated(2).epsilon(1e-6)
    assert spending.epsilon(4) == shoal.compose([(DAILY, 3), (WEEKLY, 1)]).epsilon(1e-6)
    assert spending.affordable is None and spending.sentence is None


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", representative([0.005, 0.03, 0.05, 0.12, 0.2], 2))
def test_budget_lasts_for_as_long_as_it_says(epsilon: float) -> None:
    stretches = (Stretch(DAILY, 7), Stretch(WEEKLY, 1), Stretch(DAILY, 7), Stretch(WEEKLY, 1))
    spending = Spending(stretches, 1e-6, budget(epsilon))
    count = spending.affordable
    assert count is not None
    assert count == 0 or spending.epsilon(count) <= epsilon
    assert spending.epsilon(count + 1) > epsilon
    first = 1 if EXHAUSTIVE else max(1, count - 8)
    assert next(number for number in range(first, 2000) if spending.epsilon(number) > epsilon) == count + 1


def test_days() -> None:
    start = date(2026, 1, 1)
    daily = Spending((Stretch(DAILY, 30, start),), 1e-6, every="day")
    assert [daily.day(count) for count in (1, 30, 31, 365)] == [
        start,
        date(2026, 1, 30),
        date(2026, 1, 31),
        date(2026, 12, 31),
    ]
    dated = (Stretch(DAILY, 1, start), Stretch(DAILY, 1, start + 7 * DAY), Stretch(WEEKLY, 1, start + 14 * DAY))
    weekly = Spending(dated, 1e-6)
    assert [weekly.day(count) for count in (1, 2, 3, 5)] == [start + 7 * DAY * weeks for weeks in (0, 1, 2, 4)]
    assert Spending((Stretch(DAILY, 5, start),), 1e-6).day(9) is None
    assert Spending((Stretch(DAILY, 5),), 1e-6).day(2) is None
    assert daily.day(10**9) is None
    with pytest.raises(ParameterError, match="must not go backwards, and 2025-12-31 comes after 2026-01-01"):
        Spending((Stretch(DAILY, 1, start), Stretch(DAILY, 1, start - DAY)), 1e-6)
    with pytest.raises(ParameterError, match="no rounds"):
        Spending((), 1e-6)


@pytest.mark.slow
def test_sentences_and_plain_values() -> None:
    start = date(2026, 1, 1)
    spending = Spending((Stretch(DAILY, 30, start),), 1e-6, budget(0.2), "day")
    lasts = "lasts for 301 rounds in all, one per day, until 2026-10-28"
    assert spending.sentence == f"ε = 0.2 at δ = 1e-06 {lasts}; one more breaks it"
    assert spending.to_dict() == {
        "budget": {"epsilon": 0.2, "delta": 1e-6, "planned": True},
        "affordable_rounds": 301,
        "last_day": "2026-10-28",
    }
    short = Spending((Stretch(WEEKLY),), 1e-6, budget(0.001))
    assert short.affordable == 0 and short.sentence is not None
    assert "is less than the first round costs" in short.sentence
    dated = (Stretch(DAILY, 1, start), Stretch(DAILY, 1, start + 7 * DAY))
    later = Spending(dated, 1e-6, budget(0.05)).sentence
    assert later is not None and "at this pace until about 2026-" in later


@pytest.mark.slow
def test_gaussian_noise_and_pure_budgets() -> None:
    noise = shoal.amplify(shoal.Gaussian(deviation=4.0), reports=100_000)
    chosen = Spending((Stretch(DAILY, 2),), 1e-6, Budget(0.1, 1e-6, planned=False))
    count = chosen.affordable
    assert count is not None and chosen.epsilon(count) <= 0.1 < chosen.epsilon(count + 1)
    pure = Spending((Stretch(DAILY, 2),), 0.0, Budget(20.0, 0.0))
    assert pure.affordable == 10
    assert Spending((Stretch(noise),), 1e-6, budget(2 * noise.epsilon(1e-6))).total == 1


@pytest.mark.slow
def test_picture() -> None:
    pytest.importorskip("matplotlib")
    stretches = (Stretch(DAILY, 30, date(2026, 1, 1)), Stretch(WEEKLY, 4, date(2026, 2, 1)))
    spending = Spending(stretches, 1e-6, budget(0.2))
    axes = spending.plot()
    done, later = axes.get_lines()[:2]
    drawn = dict(zip(done.get_xdata(), done.get_ydata(), strict=True))
    assert drawn[34] == spending.epsilon(34) and drawn[30] == spending.epsilon(30) and drawn[0] == 0
    heights = [*done.get_ydata(), *later.get_ydata()[1:]]
    assert all(after > before for before, after in pairwise(heights))
    assert max(heights) > 0.2
    texts = " ".join(text.get_text() for text in [*axes.texts, *axes.get_legend().get_texts()])
    texts += axes.get_title("left")
    assert f"spent after {spending.affordable:,} rounds" in texts and "ε = 0.095" in texts and texts.count("δ = ") == 1
    for words in (
        "any randomizer, ε₀ = 2 to 4, n = 1,000,000, δ = 1e-06",
        "if continued at the same rate",
        "budget ε = 0.2",
    ):
        assert words in texts
    survey = shoal.amplify(shoal.RandomizedResponse(categories=20, local_epsilon=2), reports=50_000)
    alone = Spending((Stretch(survey, 9),), 1e-6).plot()
    assert "randomized response over 20 categories, ε₀ = 2, n = 50,000, δ = 1e-06" in alone.get_title("left")
    assert math.isclose(alone.get_xlim()[1], 9 * 1.02)


@pytest.mark.parametrize(("local_epsilon", "rounds"), [(50.0, 0), (5.0, 2)])
def test_a_budget_without_delta_is_kept_by_local_guarantees_alone(local_epsilon: float, rounds: int) -> None:
    curve = shoal.amplify(local_epsilon=local_epsilon, reports=1000, bound="clones")
    assert Spending((Stretch(curve),), 0.0, Budget(10.0, 0.0, planned=True)).affordable == rounds
