"""
.. _tutorial-hitters:

Heavy hitters: frequent strings from a file, without a list of them
===================================================================

Which words do many people look for, which addresses crash, which new names appear? A histogram needs a list of categories in advance; here there is none, and what only one person holds must not be
seen. A *search* finds the strings that many people hold, prefix by prefix, over a few rounds that keep one ε together.
"""

# %%
# A file of strings
# -----------------
# One row a person. A dozen words are popular, and 4,000 people hold a string that nobody else has. Strings are counted as bytes in UTF-8, so that letters of any language will do.

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import shoal

popular = {
    "tram": 7000, "bus": 6200, "métro": 4300, "taxi": 3000, "bike": 2100, "ferry": 1500,
    "walk": 900, "τραμ": 700, "plane": 400, "horse": 180, "sledge": 90, "kayak": 30,
}  # fmt: skip
words = [word for word, count in popular.items() for _ in range(count)]
words += [f"{number:06x}" for number in np.random.default_rng(3).integers(0, 16**6, 4000)]
path = Path(tempfile.mkdtemp()) / "words.csv"
pd.DataFrame({"person": range(len(words)), "word": words}).to_csv(path, index=False)
print(f"{len(words):,} people hold {len(set(words)):,} different strings")

# %%
# Plan
# ----
# We count the first 48 bits of a string, which are six bytes. All of it is settled before anybody sends something, but for the lists of prefixes: how many rounds, what people send, and how many people a string
# must have to be found.

plan = shoal.plan_heavy_hitters(people=len(words), epsilon=1, delta=1e-6, bits=48)
print(plan)
print(
    f"prefixes of {', '.join(map(str, plan.depths))} bits; threshold {plan.threshold:.0f} people"
)

# %%
# The threshold is five standard deviations of the count of a prefix that nobody holds. It hangs on ε and on the number of rounds, and hardly on how many people there are: of ten times as many people, strings
# that are ten times as rare are found.

larger = shoal.plan_heavy_hitters(people=1_000_000, epsilon=1, delta=1e-6, bits=48)
print(f"of {plan.people:,} people: {plan.threshold / plan.people:.3%}")
print(f"of {larger.people:,} people: {larger.threshold / larger.people:.4%}")

# %%
# Search
# ------
# In every round each person sends one message about the prefix they hold, or about "none of these", and a cover, which is random. All messages of all people are shuffled. The analyst counts the listed prefixes, keeps those
# with enough people, and the next round lists what is 8 bits longer.

held = pd.read_csv(path)["word"].tolist()
found = shoal.heavy_hitters(held, plan=plan)
pd.DataFrame(
    [(each.bits, each.listed, each.kept) for each in found.rounds],
    columns=["bits", "prefixes listed", "kept"],
)

# %%
# What was found
# --------------


def cut(word):
    """Return the first six bytes of a string, which is all that counts here."""
    return word.encode()[:6].decode(errors="replace")


table = found.to_frame()
table["truth"] = [sum(item == cut(word) for word in held) for item in found.items]
table.round(1)

# %%
# Nothing that only one person holds is among them. How many of the strings found are to be expected to be held by nobody:

print(f"{found.false_items:.2g} at most")

# %%
# What was missed, and why
# ------------------------
# Strings with fewer people than the threshold drown in the noise, and must. A string that is longer than six bytes would be cut: its first six bytes are found.

for word, count in popular.items():
    if word not in found.items:
        print(f"{word}: {count} people; its first six bytes are {cut(word)!r}")

# %%
# ``bits=64`` takes eight bytes, in two more rounds. For longer strings there is ``code="hash"``: people hash their string, hashes are found, and they come back as strings if they are on a public list of
# names that they might come from. The list may be long, and does not have to be complete.

names = ["tram", "τραμ", "a name that nobody holds"]
hashed = shoal.heavy_hitters(held, epsilon=1, code="hash", names=names)
print(hashed.items[:8])

# %%
# How private is it?
# ------------------
# All rounds together keep ε, the lists included that were chosen from earlier results: no list says more than the counts that it was chosen from.

found.curve

# %%
# Who trusts whom
# ---------------
#
# .. list-table::
#    :stub-columns: 1
#    :widths: 25 75
#
#    * - people trust the shuffler
#      - to mix message by message, not bundle by bundle, and to tell nobody who sent what; in every round
#    * - people trust each other
#      - that as many as were planned for take part in every round, and fill their slots: who does not hides nobody
#    * - people trust the analyst
#      - with nothing: the analyst writes the lists, and ε holds whatever is on them
#    * - the analyst trusts people
#      - one malicious person moves a count by about two people: some fifty of them together can make a string appear that nobody holds
#    * - if shuffler and analyst collude
#      - **next to nothing remains**
#
# If shuffler and analyst collude
# -------------------------------
# In plain words: the shuffler knows who sent which message, and the analyst can open it. Together they follow one person through all rounds. A message fits one in so many of the prefixes that are listed:

print(f"one in {plan.order}")

# %%
# That of round 1, where all prefixes of two bytes are listed, leaves a few hundred of them; those of all rounds together leave a handful of strings, most of which nobody holds. Of a string that is rare, and
# not listed for long, they learn its beginning. One message in 65,536 is random, which keeps all losses finite, and is a protection for nobody:

print(found.remains)

# %%
# So run a search with a shuffler that is not the analyst's. And what is found is published: that a string is found says that many people hold it, which is the purpose, and may be a secret of a group of people. Differential
# privacy hides each of them, not the group.
#
# The same on the command line
# ----------------------------
# A file of everybody's strings, and what to expect of other sizes, by simulation:
#
# .. code-block:: console
#
#    $ shoal heavy-hitters words.csv --column word --epsilon 1 --output found.csv --plot found.png
#    $ shoal heavy-hitters --simulate --people 1e6 --epsilon 1
#
# :doc:`/messages` has more about searches.
#
# The picture
# -----------
# Each bar is a string that was found, with its 95 % interval; the strokes are the truth. Strings below the dashed line are not found.

missed = [word for word in popular if cut(word) not in found.items]
places = np.arange(len(found.items))
reach = [found.counts - found.lower, found.upper - found.counts]
figure, axes = plt.subplots(figsize=(7, 4.4))
axes.bar(places, found.counts, yerr=reach, color="C0", alpha=0.7, ecolor="0.2", capsize=2)
true = [*table["truth"], *(popular[word] for word in missed)]
axes.plot(np.arange(len(true)), true, "k_", markersize=14, label="truth")
axes.axhline(plan.threshold, color="C3", linestyle="--", linewidth=1)
axes.text(-0.5, 0.9 * plan.threshold, "threshold", va="top", color="C3")
axes.set(yscale="log", ylim=(10, None), ylabel="people")
axes.set_title(f"{found.people:,} people, ε = 1 at δ = 10⁻⁶")
axes.set_xticks(np.arange(len(true)), [*found.items, *missed], rotation=45, ha="right")
axes.legend()
figure.tight_layout()
