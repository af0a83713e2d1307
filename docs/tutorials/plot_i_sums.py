"""
.. _tutorial-sums:

Differentially private sums, means and quantiles of numbers
===========================================================

Each person has a number: minutes, kilometres, an age, an amount. We want the sum, the mean, the median and other quantiles, with error bars, and nobody's number. One protocol gives all of them
for one ε: numbers are rounded at random to a few *levels*, and the levels are counted like the categories of a :ref:`histogram with dummies or covers <tutorial-messages>`.
"""

# %%
# People
# ------
# 50,000 people, and how many minutes each travels to work. The interval of possible numbers is public, and chosen without a look at the data; here 0 to 180. Whoever travels longer says 180,
# on their own device: that is a part of the question.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import shoal

n, lower, upper = 50_000, 0, 180
people = np.minimum(np.random.default_rng(2).gamma(2.2, 16, size=n).round(1), upper)
print(f"the first three: {people[:3].tolist()}")

# %%
# Plan
# ----
# More levels round less, and each brings noise of its own. ``plan_sum`` chooses how many have the least error of the sum under the promise.

levels = shoal.plan_sum(reports=n, epsilon=0.5, delta=1e-6, lower=lower, upper=upper)
step = (upper - lower) / levels.steps
print(levels.protocol)
print(f"{levels.steps + 1} levels, {step:.2f} minutes apart")

# %%
# Round at random
# ---------------
# A number between two levels goes up or down by a coin whose odds make the mean right: 30 minutes is rounded to the level below or above it, and on average to 30. So the sum stays unbiased, and only its
# error grows a little.

rounded = levels.values[levels.rounded(np.full(10_000, 30.0))]
print(
    f"30 becomes one of {np.unique(rounded).round(2).tolist()}, and {rounded.mean():.2f} on average"
)

# %%
# Send, shuffle, add dummies
# --------------------------
# A person sends the number of a level. The shuffler mixes the messages, and adds 50 dummies for each level, more or less; the analyst subtracts 50. The analyst only counts messages, so that their order
# makes no difference here, and this page leaves the permutation out.

messages = levels.randomize(people)
counts = levels.released(levels.aggregate(messages))  # drawn once for the same messages

# %%
# Estimate
# --------

estimate = levels.estimate(counts)
estimate

# %%
# Beside the truth, which only this page knows. Each interval holds the truth with 95 % probability. The interval of a quantile is about two steps wide or wider, because people were rounded; more levels would
# make it narrower, and the sum worse.

rows = {"sum": (estimate.sum, people.sum()), "mean": (estimate.mean, people.mean())}
for share in (0.25, 0.5, 0.9):
    rows[f"quantile {share:g}"] = estimate.quantile(share), np.quantile(people, share)
table = pd.DataFrame(
    [
        (name, each.value, each.lower, each.upper, true)
        for name, (each, true) in rows.items()
    ],
    columns=["", "estimate", "from", "to", "truth"],
)
table.round(2)

# %%
# How private is it?
# ------------------

curve = shoal.amplify(levels.protocol, reports=n)
curve

# %%
# Other ways to a sum
# -------------------
# The same promise, ε = ½ at δ = 10⁻⁶, by other means. The error is that of the sum, in minutes:
#
# * *One bit*: each person says "more" or "less" by a coin that depends on the number, and this bit is randomized. It needs nothing of the shuffler but that it mixes.
# * *Covers*: people add random levels, and the shuffler adds nothing.
# * *Dummies*: what we did.
# * *Split and mix*: each person adds a tiny share of the noise, and splits the number into several random numbers that add up to it.
# * *A trusted curator*, who sees all numbers and adds Laplace noise.

local = shoal.calibrate(reports=n, epsilon=0.5, delta=1e-6).local_epsilon
one_bit = shoal.OneBitMean(local_epsilon=local, lower=lower, upper=upper)
covers = shoal.plan_sum(reports=n, epsilon=0.5, lower=lower, upper=upper, covers=True)
split = shoal.SplitAndMix.fitted(
    epsilon=0.5, delta=1e-6, honest=n, people=n, lower=lower, upper=upper
)
errors = {
    "one bit": n * one_bit.variance(reports=n) ** 0.5,
    "covers": covers.variance(reports=n) ** 0.5,
    "dummies": levels.variance(reports=n) ** 0.5,
    "split and mix": split.variance(reports=n) ** 0.5,
    "trusted curator": 2**0.5 * (upper - lower) / 0.5,
}
for name, error in errors.items():
    print(f"{name:15} ± {error:8,.0f} minutes, {error / people.sum():.3%} of the sum")

# %%
# Why is split and mix not the default? Because no message is checked to be in a range, and a single malicious client can move the sum anywhere, and nothing shows it:

honest = split.randomize(people)
forged = honest.copy()
forged[0, 0] = (
    int(forged[0, 0]) + 10_000 * split.steps
) % split.modulus  # one person of 50,000
for name, sent in (("all honest", honest), ("one malicious client", forged)):
    print(
        f"{name:20}: mean {split.estimate(split.total(sent), reports=n).mean.value:.2f} minutes"
    )

# %%
# With dummies one client moves the sum by at most the length of the interval. Each slot of covers adds half of that:

print(f"dummies: {levels.influence:g} minutes, covers: {covers.influence:g} minutes")

# %%
# Who trusts whom
# ---------------
#
# .. list-table::
#    :header-rows: 1
#    :stub-columns: 1
#    :widths: 18 27 27 28
#
#    * -
#      - levels with dummies
#      - levels with covers
#      - split and mix
#    * - people trust the shuffler
#      - to mix, to tell nobody who sent what, to add the dummies once, and to forget how many they were
#      - to mix message by message, and to tell nobody who sent what
#      - the same
#    * - people trust each other
#      - with nothing
#      - to fill their slots: who does not hides nobody
#      - to add their share of the noise: with fewer than were counted on, nothing is guaranteed
#    * - the analyst trusts people
#      - hardly: one moves the sum by the interval
#      - hardly: by one and a half intervals with one slot, and half of one more for each other slot
#      - completely: one can move the sum anywhere
#    * - if shuffler and analyst collude
#      - **nothing remains**
#      - **nothing remains**
#      - **nothing remains**
#
# If shuffler and analyst collude
# -------------------------------
# In plain words: the shuffler knows who sent which message, and the analyst can open it. Together they know everybody's level. The rounding hides no more than where in a step the number lies:

whose = levels.values[levels.rounded(people[:1])][0]
print(
    f"person 1 travels {people[0]} minutes; they would know {whose:.1f}, give or take {step:.1f}"
)

# %%
# With split and mix they add up the numbers of one person, and have that person's number with a share of noise that is nearly always zero. Only the one-bit mean leaves something, the ε₀ of its bit:

print(
    f"one bit: ε₀ = {one_bit.local_epsilon:.2f} remains, and ± {errors['one bit']:,.0f} minutes is its price"
)

# %%
# The same on the command line
# ----------------------------
# What it prints is private, and to run it again on the same people costs ε again:
#
# .. code-block:: console
#
#    $ shoal sum people.csv --column minutes --lower 0 --upper 180 --epsilon 0.5 --plot minutes.png
#    $ shoal sum people.csv --column minutes --lower 0 --upper 180 --epsilon 0.5 --covers
#
# The picture
# -----------
# The estimated distribution with its intervals: the share of people at or below each level. The dashed line is the truth.

figure, axes = plt.subplots(figsize=(7, 4.4))
estimate.plot(axes)
minutes = np.linspace(lower, upper, 400)
axes.plot(
    minutes, np.searchsorted(np.sort(people), minutes, side="right") / n, "k--", linewidth=1
)
figure.tight_layout()
