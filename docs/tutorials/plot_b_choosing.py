"""
.. _tutorial-choosing:

Choosing ε₀, n and δ
====================

Four numbers hang together: ε₀, what one report may say by itself; n, how many people report; δ, the small term that is added to it; and ε, the promise.
Three of them decide the fourth. This page goes through the choices in the order in which people have to make them.
"""

# %%
# δ first, and then forget it
# ---------------------------
# δ is added to every probability that ε bounds, so it should be far below one in the number of people: 10⁻⁶ for a hundred thousand, 10⁻⁹ for a hundred million. A much smaller δ
# costs little, because ε grows only like the square root of log(1/δ):

import matplotlib.pyplot as plt
import numpy as np

import shoal
from shoal.digits import rounded_up

curve = shoal.amplify(local_epsilon=1, reports=100_000)
for delta in (1e-5, 1e-6, 1e-9, 1e-12):
    print(f"δ = {delta:g}: ε = {rounded_up(curve.epsilon(delta), 3)}")

# %%
# ε: what you promise
# -------------------
# There is no right ε. What it means for a person can be said in other words. An attacker wants to know which of two answers you gave, A or B. If they wrongly say B for
# 1 in 100 people who answered A, for how many in 100 who answered B do they rightly say B, at most? Guessing blindly gives 1.

print("           shuffled   ε alone")
for epsilon in (0.1, 0.5, 1, 2, 4):
    local = shoal.calibrate(epsilon=epsilon, delta=1e-6, reports=100_000).local_epsilon
    shuffled = shoal.amplify(local_epsilon=local, reports=100_000).attack_success(0.01)
    alone = min(1, np.exp(epsilon) * 0.01 + 1e-6)
    print(
        f"ε = {epsilon:<4}   {rounded_up(100 * shuffled, 4):<8}   {rounded_up(100 * alone, 4)}"
    )

# %%
# The left column is about shuffled reports of 100,000 people, whose whole curve of ε and δ is known. If all you know is ε (at δ = 10⁻⁶), only the right column holds:
# it is 100·min(1, e^ε·0.01 + δ). Many deployments promise ε = 1 or less for what is published in a day, and a
# :ref:`budget for a year <tutorial-year>`.
#
# n: as many as there are, and no more than come
# -----------------------------------------------
# Use the number that you can count on, not the one that you hope for; a shuffler can wait for it. Leave out those who may work for the attacker. Twice the people
# are as good as an ε that is √2 times smaller:

for reports in (1_000, 2_000, 4_000, 8_000, 16_000):
    print(
        f"n = {reports:>6,}: ε = {rounded_up(shoal.amplify(local_epsilon=2, reports=reports).epsilon(1e-6), 3)}"
    )

# %%
# ε₀: the largest that keeps the promise, unless that is too large by itself
# ----------------------------------------------------------------------------
# A larger ε₀ is a smaller error. So take the largest that the promise allows:

largest = shoal.calibrate(epsilon=0.5, delta=1e-6, reports=100_000)
largest

# %%
# For a histogram ``plan`` does it for every randomizer, and each gets more than the bound for any of them:

plan = shoal.plan(categories=20, reports=100_000, epsilon=0.5, delta=1e-6)
plan.to_frame()[["mechanism", "local_epsilon", "error"]].head(3)

# %%
# But ε₀ is also what is left if the shuffler fails, or works with the analyst. An ε₀ of 6 is a factor of 400, and hardly protects anybody alone. If the
# shuffler is run by yourself, choose ε₀ as if there were none, 2 say, and let the central ε be as small as it comes out:

modest = shoal.plan(
    categories=20, reports=100_000, epsilon=0.5, delta=1e-6, local_epsilon=2
)
print(
    f"error {modest.best.error:.4f} in place of {plan.best.error:.4f}, and ε = {rounded_up(modest.best.epsilon, 3)}"
)

# %%
# The picture
# -----------
# The whole choice at once: the error of a histogram with 20 categories, against the number of people. Solid is the largest ε₀ that each promise allows, dashed is with ε₀ ≤ 2.

people = np.logspace(3, 6, 7).round()
figure, axes = plt.subplots(figsize=(7, 4.4))
for number, epsilon in enumerate((0.1, 0.5)):
    for limit, style in ((None, "-"), (2, "--")):
        errors = [
            shoal.plan(
                categories=20, reports=n, epsilon=epsilon, delta=1e-6, local_epsilon=limit
            ).best.error
            for n in people
        ]
        axes.loglog(
            people,
            errors,
            style,
            color=f"C{number}",
            label=f"ε = {epsilon}" + (", ε₀ ≤ 2" if limit else ""),
        )
axes.set(xlabel="people", ylabel="ℓ₂ error of the histogram", title="What a promise costs")
axes.grid(alpha=0.3)
axes.legend(ncols=2, fontsize="small")
figure.tight_layout()
