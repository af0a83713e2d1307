"""
.. _tutorial-review:

A privacy review to hand over
=============================

Somebody has to approve the collection: a data protection officer, a review board, a customer. They want to know what is protected and from whom, what that assumes, and who has checked it. ``shoal review`` writes
one HTML file that says so, and carries its own proof.
"""

# %%
# Make the page
# -------------
# 20,000 people, five categories, randomized response with ε₀ = 2. Up to 100 of the reports may be made up by whoever looks.

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import shoal
from shoal.cli import main
from shoal.digits import rounded_up

folder = Path(tempfile.mkdtemp())
page = folder / "review.html"
asked = [
    "--reports",
    "20_000",
    "--categories",
    "5",
    "--local-epsilon",
    "2",
    "--malicious",
    "100",
]
main(["review", *asked, "--title", "Colours of cars", "--output", str(page)])
print(f"{page.stat().st_size / 1024:.0f} kB, without any script or link to elsewhere")

# %%
# Check the page
# --------------
# Whoever gets the file needs nothing else. ``shoal verify`` carries out the proof again in ball arithmetic, and compares the page, byte for byte, with what its own data give.

status = main(["verify", str(page)])
print("exit status", status)

# %%
# A page with a smaller ε in the line marked *proved* is refused:

forged = folder / "forged.html"
forged.write_text(page.read_text().replace("0.067", "0.017"))
print("exit status", main(["verify", str(forged)]))

# %%
# What is proved, and what is not
# -------------------------------
# Every line of the page has one of four marks.
#
# ==========  ==================================================================================
# proved      a certificate on the page proves it; ``shoal verify`` does it again
# computed    a theorem, computed in floating point; ``shoal verify`` does not check it
# assumed     nothing checks it; the guarantee holds if this does
# declared    said by whoever made the page, such as its title
# ==========  ==================================================================================
#
# Someone who changes a line without the mark *proved*, in the page and in its data, gets a page that still verifies: to check the computed
# lines, run ``shoal review`` again with the same inputs.
#
# Read the lines that say *assumed* first. For each the page says why it holds here, and what is left if it fails: most often ε₀.
#
# A sentence for the privacy notice
# ---------------------------------

main(["review", *asked, "--plain"])

# %%
# What an attacker can do
# -----------------------
# ε is hard to explain. This is not: an attacker wants to know which of two answers you gave, A or B. Of 100 people who answered A, they wrongly say B for so many; of 100
# who answered B, they rightly say B for at most so many. Guessing blindly gives the same number twice.

mechanism = shoal.RandomizedResponse(categories=5, local_epsilon=2)
shuffled = shoal.amplify(mechanism, reports=19_900)
alone = shoal.amplify(mechanism, reports=1)
for alarms in (0.01, 0.1):
    hits = [
        rounded_up(100 * curve.attack_success(alarms), 4) for curve in (shuffled, alone)
    ]
    print(
        f"{100 * alarms:.0f} in 100 wrongly: at most {hits[0]} in 100 rightly; without a shuffler {hits[1]}"
    )

# %%
# The picture
# -----------
# The same for every attacker. On the diagonal one learns nothing.

rates = np.linspace(0, 1, 101)[1:-1]
figure, axes = plt.subplots(figsize=(5.2, 5))
axes.plot(
    rates,
    [alone.attack_success(rate) for rate in rates],
    color="C1",
    label="one report alone, ε₀ = 2",
)
epsilon = rounded_up(shuffled.epsilon(1e-6), 2)
axes.plot(
    rates,
    [shuffled.attack_success(rate) for rate in rates],
    color="C0",
    label=f"shuffled, ε = {epsilon}",
)
axes.plot([0, 1], [0, 1], ":", color="0.5", label="knowing nothing")
axes.set(
    xlabel="wrongly says B",
    ylabel="rightly says B, at most",
    title="The best attacker",
    aspect="equal",
)
axes.legend(loc="lower right")
figure.tight_layout()
