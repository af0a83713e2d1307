"""
.. _tutorial-messages:

A histogram as good as a trusted curator's: covers and dummies
==============================================================

With one randomized report a person, a histogram in the shuffle model has two to three times the error of a trusted curator, who would see all data and add noise once. With more than
one message for each person it can do better: :term:`covers <cover>` narrow the gap, and :term:`dummies <dummy>` close it. Both ask for more trust. This page runs all three on the same people, and says
who has to trust whom, and what remains if the shuffler and the analyst work together.
"""

# %%
# People
# ------
# 100,000 people, and which of 100 radio stations each listens to. The first is the most popular, the i-th is 1/i as popular.

import matplotlib.pyplot as plt
import numpy as np

import shoal

stations, n = 100, 100_000
popularity = 1 / np.arange(1, stations + 1)
people = np.random.default_rng(1).choice(stations, size=n, p=popularity / popularity.sum())
truth = np.bincount(people, minlength=stations)

# %%
# Plan
# ----
# We promise a central ε of ½ at δ = 10⁻⁶. With ``messages=2`` people may send a second message, and with ``dummies=True`` the shuffler may add some of its own. Each mechanism gets what the promise
# allows it. The error is that of the whole histogram, as a multiple of the curator's.

plan = shoal.plan(categories=stations, reports=n, epsilon=0.5, messages=2, dummies=True)
table = plan.to_frame()[
    ["mechanism", "error", "category_error", "frequent_error", "messages"]
]
table["error"] /= plan.central_error
table.head(3).rename(
    columns={
        "error": "error / curator's",
        "category_error": "± rare station",
        "frequent_error": "± most popular one",
        "messages": "messages a person",
    }
).round(6)

# %%
dummies, covers, single = (choice.mechanism for choice in plan.choices[:3])

# %%
# One message
# -----------
# Each person runs randomized response, and the shuffler mixes the reports. The noise is people's own coins, and the more people listen to a station, the more of their coins blur its count.

shuffler = (
    np.random.default_rng()
)  # for a page; `shoal shuffle` draws its order by a cipher
reports = shuffler.permutation(single.randomize(people))
estimates = {"one message": single.estimate(single.aggregate(reports))}

# %%
# Covers
# ------
# A person sends a *bundle*: the true station, and perhaps a *cover*, a message about a station drawn at random. An empty slot is sealed like any other message, so that nobody sees from outside who sent a
# cover. The bundles of three people, where 100 stands for an empty slot:

bundles = covers.randomize(people)
print(f"a slot holds a cover with probability {covers.fill:.3f}")
print(bundles[:3].tolist())

# %%
# The shuffler mixes *messages*, not bundles, and every true message hides among the covers of all people.

messages = shuffler.permutation(bundles.ravel())
sent = np.sum(messages < stations)
print(f"{sent:,} messages, of which {sent - n:,} say nothing about anybody")
estimates["covers"] = covers.estimate(covers.aggregate(messages))

# %%
# Dummies
# -------
# A person sends the station as it is, sealed for the analyst. The shuffler cannot read it, and adds for every station 50 messages of its own, more or less: how many more or less is drawn from a
# discrete Laplace distribution. The analyst knows the 50 and subtracts them; what is left as noise is what a curator would have added.

counts = dummies.aggregate(dummies.randomize(people))  # nobody ever sees these
released = dummies.released(counts)  # what the analyst sees, drawn once
estimates["dummies"] = dummies.estimate(released)
print(f"{dummies.added:,} dummies on average, for {n:,} people")

# %%
# What it is worth
# ----------------
# How far each estimate is from the truth, as the root mean square over all stations, in people:

errors = {name: n * each.frequencies - truth for name, each in estimates.items()}
for name, error in errors.items():
    print(f"{name:12} ± {np.sqrt(np.mean(error**2)):5.1f} people")
curator = n * plan.central_error / np.sqrt(stations)
print(f"{'curator':12} ± {curator:5.1f} people, expected")

# %%
# How private it is
# -----------------
# All three keep the promise against whoever sees what the shuffler releases. With covers, ``reports`` are those who certainly take part: covers of people who are absent hide nobody. With dummies,
# ε holds for any number of people, whatever the others send.

curves = {
    mechanism: shoal.amplify(mechanism, reports=n)
    for mechanism in (single, covers, dummies)
}
for curve in curves.values():
    print(curve)

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
#      - one message
#      - covers
#      - dummies
#    * - people trust the shuffler
#      - to mix, and to tell nobody who sent what
#      - the same; and it must mix message by message, not bundle by bundle
#      - the same; and it must add the dummies, draw them once, and forget how many they were: whoever knows can subtract them from what is published
#    * - people trust each other
#      - to run the same program: who does not hides nobody
#      - to fill their slots: who does not hides nobody
#      - with nothing
#    * - the analyst trusts people
#      - one malicious person moves a count by about one
#      - by two: the message and the slot
#      - by one
#    * - if shuffler and analyst collude
#      - ε₀ of each report remains
#      - **nothing remains**
#      - **nothing remains**
#
# If shuffler and analyst collude
# -------------------------------
# In plain words: the analyst can open messages, and the shuffler knows who sent which. Together they can do both. What each of them promises alone is then worth only what the message itself hides.

for choice in plan.choices[:3]:
    print(f"{choice.mechanism.name:20} {choice.mechanism.remains}")

# %%
# With dummies they read what each person said. With covers they read a bundle; whoever sent no cover has told them the station, and of two messages the truth is one:

alone = np.mean(bundles[:, 1] == stations)
print(f"{alone:.0%} of the bundles hold one message, and it is the truth")

# %%
# With one message the ε₀ of a report remains. At this promise it is large, and helps little:

told = np.mean(single.randomize(people) == people)
print(f"ε₀ = {single.local_epsilon:.2f}: {told:.0%} of the reports are true all the same")

# %%
# If something must remain even then, demand it: a limit on ε₀ makes people randomize more, and has its price. Neither covers nor dummies help much with it, and the plan says so:

limited = shoal.plan(
    categories=stations, reports=n, epsilon=0.5, messages=2, local_epsilon=3
)
print(
    f"{limited.best.mechanism.name}: {limited.best.error / limited.central_error:.0f} times the curator's error"
)
print("what remains:", limited.best.mechanism.remains)

# %%
# So covers and dummies are for a shuffler that is run by somebody else than the analyst, under a contract, in another organisation, or by both in a way that each can check. For dummies, a second
# helper can add as many: then one honest party of the two is enough for the noise, at √2 of the error (``Dummies(..., helpers=2)``).
#
# Never draw dummies twice
# ------------------------
# Dummies hide people because nobody knows how many they were. Two results over the same messages with different dummies say more than one, and enough of them say everything:

again = np.mean([dummies.released(counts).values[:stations] for _ in range(1000)], axis=0)
exact = np.mean(np.round(again - dummies.limit) == truth)
print(f"{exact:.0%} of the exact counts come from the average of 1,000 draws")

# %%
# That is why the :doc:`shuffler of a collection </collecting>` stores one draw for each round, in the transaction that seals it, and why ``shoal shuffle`` refuses reports that have their dummies already.
#
# The same on the command line
# ----------------------------
#
# .. code-block:: console
#
#    $ shoal plan --categories 100 --reports 100_000 --epsilon 0.5 --messages 2 --dummies --output plan.json
#    $ shoal randomize people.csv --column station --categories stations.txt --schema plan.json --output reports.shoal
#    $ shoal shuffle reports.shoal --output shuffled.shoal
#    $ shoal estimate shuffled.shoal
#    $ shoal review --plan plan.json --output review.html
#
# The first choice of the plan is taken; without ``--dummies`` it has covers. :doc:`/messages` is the page about all of it, and :doc:`/theory/several-messages` has the proofs.
#
# The picture
# -----------
# Each dot is a station: how far its estimated count is from the truth. On the left are the popular ones, where one message loses most. The band is ± one standard deviation of a trusted curator.

figure, axes = plt.subplots(figsize=(7, 4.4))
axes.axhspan(-curator, curator, color="0.85", label="trusted curator, ± 1 sd")
for marker, (name, error) in zip("xo.", errors.items(), strict=True):
    axes.plot(np.arange(1, stations + 1), error, marker, markersize=5, label=name)
axes.set(
    xscale="log",
    xlabel="station, the most popular first",
    ylabel="estimated − true, in people",
    title=f"{n:,} people, {stations} stations, ε = ½ at δ = 10⁻⁶",
)
axes.grid(alpha=0.3)
axes.legend(fontsize="small")
figure.tight_layout()
