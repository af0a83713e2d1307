"""
.. _tutorial-year:

A year of telemetry: a privacy budget for daily collections
===========================================================

50,000 devices report every day which of 20 features was used most. All days of a year together shall have ε = 1 at δ = 10⁻⁶. What may one day cost, how good is the result, and on
which day is the budget spent if we take more?
"""

# %%
# A day is not a year
# -------------------
# A plan for ε = 1 is a plan for one day. Used on all of them it is far from ε = 1:

import textwrap
from datetime import date

import matplotlib.pyplot as plt

import shoal
from shoal.calibration import Spending, Stretch
from shoal.composition.budget import Budget
from shoal.digits import rounded_up

one_day = shoal.plan(categories=20, reports=50_000, epsilon=1, delta=1e-6)
careless = one_day.best.curve.repeated(365)
print(f"365 days: ε = {rounded_up(careless.epsilon(1e-6), 3)}")

# %%
# Plan the year
# -------------
# ``rounds=365`` asks for the best randomizer whose 365 rounds together keep the promise.

year = shoal.plan(categories=20, reports=50_000, epsilon=1, delta=1e-6, rounds=365)
print(
    f"ε₀ = {year.mechanism.local_epsilon:.3f}, one day has ε = {rounded_up(year.best.round_epsilon, 3)}"
)
year

# %%
# 365 times that would be 15.5, and all days together have 1: privacy losses add up like steps of a random walk, and not like lengths. That is
# :term:`composition`, computed here from the distribution of the losses itself.
#
# Is that still of use? The error bar of a rare feature on one day, and averaged over the year, since the noise of the days is independent:

print(
    f"one day ± {year.best.category_error:.4f}, the mean of all days ± {year.best.average_category_error:.5f}"
)

# %%
# A ledger
# --------
# In operation a *ledger* keeps the budget. It is a file; every round is entered before it is collected, and the one that would break the budget is refused. All days are settled in advance
# here, so we say ``planned=True``. Without it the budget also holds if you choose ε₀ and n of a day in view of what came out before, and fewer days fit.

daily = year.best.curve
ledger = shoal.Ledger()  # or shoal.Ledger("telemetry.json")
for day in range(3):
    with ledger.budget(
        daily, epsilon=1, delta=1e-6, planned=True, label=f"{day + 1} January"
    ):
        pass  # collect the reports of this day
print(f"spent after 3 days: ε = {rounded_up(ledger.spent(1e-6), 3)}")
try:
    with ledger.budget(
        shoal.amplify(local_epsilon=12, reports=50_000), epsilon=1, delta=1e-6, planned=True
    ):
        raise AssertionError("this is never reached")
except shoal.errors.BudgetError as error:
    print(textwrap.fill(f"a round with ε₀ = 12: {error}", 88))

# %%
# On which day is a budget spent?
# -------------------------------
# Suppose that we want ε₀ = 4 in the first quarter, whatever comes:

bold = shoal.amplify(
    shoal.RandomizedResponse(categories=20, local_epsilon=4), reports=50_000
)
spending = Spending(
    (Stretch(bold, 90, date(2026, 1, 1)),), 1e-6, Budget(1.0, 1e-6, True), "day"
)
print(spending.sentence)

# %%
# On the command line:
#
# .. code-block:: console
#
#    $ shoal plan --categories 20 --reports 50_000 --epsilon 1 --rounds 365
#    $ shoal compose --randomizer randomized-response --categories 20 --local-epsilon 4 --reports 50_000 --rounds 90 --epsilon 1 --start 2026-01-01 --every day --plot year.png
#
# The picture
# -----------
# ε of all days so far, with the budget, and the day on which it is spent:

figure, axes = plt.subplots(figsize=(7, 4.4))
spending.plot(axes)
figure.tight_layout()
