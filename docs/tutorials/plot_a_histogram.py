"""
.. _tutorial-csv:

Local differential privacy histogram from a CSV
===============================================

A CSV file has one person a row, and a column with one of a few categories. We want to know how frequent each category is, and nobody, not even we who
count, should learn anybody's category. At the end there is a picture with the estimate, its intervals, and how private it is.
"""

# %%
# People
# ------
# A real file would come from real people. For this page we make one: 20,000 people, and which of six ways they travel to work.

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import shoal

folder = Path(tempfile.mkdtemp())
ways = ["on foot", "bicycle", "bus", "train", "car", "at home"]
shares = [0.10, 0.22, 0.14, 0.17, 0.25, 0.12]
held = np.random.default_rng(7).choice(ways, size=20_000, p=shares)
pd.DataFrame({"person": range(20_000), "way": held}).to_csv(
    folder / "people.csv", index=False
)

# %%
# Plan
# ----
# We have promised a *central* ε of 0.5 at δ = 10⁻⁶: what the counts together may say about one person. Which randomizer has the smallest error under
# this promise? ``plan`` gives every one of them the largest *local* ε₀ that the promise allows, and ranks them.

plan = shoal.plan(categories=len(ways), reports=20_000, epsilon=0.5, delta=1e-6)
plan

# %%
# The winner is randomized response: a person tells the truth with a weight of e^ε₀, and any other category with weight 1. Its ε₀ is

print(f"ε₀ = {plan.mechanism.local_epsilon:.3f}")

# %%
# That is what *one report with a name on it* would give away. If it is too much to be borne by itself, limit it: ``shoal.plan(..., local_epsilon=3)``.
#
# Randomize, on each person's own device
# --------------------------------------
# Here all people are in one file, so we do it for all of them at once. The categories are public and fixed beforehand; they never come from the data.

people = pd.read_csv(folder / "people.csv")
numbers = people["way"].map(ways.index).to_numpy()
reports = plan.mechanism.randomize(numbers)
print(f"{np.mean(reports == numbers):.0%} of the reports are true, and nobody knows which")

# %%
# Shuffle
# -------
# A shuffler puts the reports into random order. It is this step that turns ε₀ into ε, so it must not be left out, and nobody may keep the order.

shuffled = np.random.default_rng().permutation(reports)

# %%
# For reports that matter use ``shoal shuffle``, whose order comes from a cipher that is keyed by the operating system, or a
# :ref:`real shuffler <tutorial-collection>`.
#
# Count and estimate
# ------------------

counts = plan.mechanism.aggregate(shuffled)
estimate = plan.mechanism.estimate(counts)
truth = np.bincount(numbers, minlength=len(ways)) / len(numbers)
table = pd.DataFrame(
    {
        "way": ways,
        "estimate": estimate.frequencies,
        "from": estimate.lower,
        "to": estimate.upper,
    }
)
table["truth"] = truth
table.round(4)

# %%
# How private is it?
# ------------------
# Account for the reports that really came.

curve = shoal.amplify(plan.mechanism, reports=counts.reports)
curve

# %%
# The same on the command line
# ----------------------------
# With files of any size, CSV or Parquet:
#
# .. code-block:: console
#
#    $ shoal plan --categories 6 --reports 20_000 --epsilon 0.5 --output plan.json
#    $ shoal randomize people.csv --column way --categories "on foot,bicycle,bus,train,car,at home" --schema plan.json --output reports.shoal
#    $ shoal shuffle reports.shoal --output shuffled.shoal
#    $ shoal aggregate shuffled.shoal --output counts.shoal
#    $ shoal estimate counts.shoal --plot ways.png
#
# The picture
# -----------
# Each bar is an estimate with its 95 % interval; the strokes are the truth, which only this page knows.

figure, axes = plt.subplots(figsize=(7, 4.4))
estimate.plot(axes, names=ways, truth=truth)
figure.tight_layout()
