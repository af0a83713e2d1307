"""
.. _tutorial-randomizer:

Your own randomizer: its ε₀, its amplification, its audit
=========================================================

You have a randomizer of your own, or somebody else's. Write down the probability of each report for each input, and shoal computes its exact ε₀, what shuffling makes of it, runs it, and
estimates from its reports.
"""

# %%
# A table of probabilities
# ------------------------
# A survey asks for an opinion from 1 to 5. Neighbouring opinions are similar, so this randomizer prefers reports near the truth: the weight of a report falls by a factor of √e for each step, and
# no further than by e^1.5. (For numbers such "geometric" randomizers have less error than randomized response.)

import matplotlib.pyplot as plt
import numpy as np

import shoal
from shoal.digits import rounded_up

steps = np.abs(np.subtract.outer(np.arange(5), np.arange(5)))
weights = np.exp(-0.5 * np.minimum(steps, 3))
matrix = weights / weights.sum(axis=1, keepdims=True)
opinion = shoal.MatrixRandomizer(matrix)
matrix.round(3)

# %%
# Its exact ε₀ is the largest logarithm of a ratio within a column. It is not 1.5: rows have different sums, too.

print(f"ε₀ = {rounded_up(opinion.local_epsilon, 5)}")
ratios = np.log(matrix[:, None, :] / matrix[None, :, :])
print(f"by hand: {ratios.max():.5f}")

# %%
# What shuffling makes of it
# --------------------------
# Knowing the whole table is worth more than knowing ε₀. The answer is the largest over all pairs of opinions:

known = shoal.amplify(opinion, reports=10_000)
unknown = shoal.amplify(local_epsilon=opinion.local_epsilon, reports=10_000)
print(
    f"with the table {rounded_up(known.epsilon(1e-6), 3)}, with ε₀ alone {rounded_up(unknown.epsilon(1e-6), 3)}"
)
known.lower

# %%
# Run it
# ------
# Coins come from the operating system, and probabilities are whole numbers out of 2⁶⁴, rounded toward privacy, so that what runs is what was analysed.

truth = np.random.default_rng(1).choice(5, size=10_000, p=[0.1, 0.2, 0.2, 0.3, 0.2])
reports = opinion.randomize(truth)
estimate = opinion.estimate(opinion.aggregate(reports))
estimate.to_frame().round(3)

# %%
# Audit it
# --------
# If it is only a program, without a table, run it many times on two inputs. An audit gives a *lower* bound on ε₀, with confidence: it can refute a claim, and never prove one. Any object
# with ``randomize`` and ``local_epsilon`` will do. This one claims too little:


class Boastful:
    """The same program, which says that it is twice as private as it is."""

    local_epsilon = opinion.local_epsilon / 2

    def __repr__(self):
        return "Boastful()"

    @staticmethod
    def randomize(values):
        """Run the real one."""
        return opinion.randomize(values)


honest = shoal.audit(opinion, first=0, second=4, trials=100_000)
boastful = shoal.audit(Boastful(), first=0, second=4, trials=100_000)
print(honest)
print(boastful)

# %%
# On the command line a built-in mechanism is audited by ``shoal audit --mechanism rappor --categories 10 --local-epsilon 1``. A mechanism that shoal should plan with, put into tasks and read from files
# is one class in one file: see :doc:`/mechanisms`.
#
# The picture
# -----------
# ε against δ, with what no bound can beat, and one report alone:

figure, axes = plt.subplots(figsize=(7, 4.4))
known.plot(axes)
figure.tight_layout()
