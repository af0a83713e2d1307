"""A histogram from people to estimate: plan, randomize, shuffle, estimate, and look at the truth."""

import numpy as np

from examples.story import Story
from shoal.files.count_file import read_counts

_PEOPLE, _EPSILON, _DELTA = 20_000, "0.25", "1e-6"
_SPECIES = (
    *("oak", "ash", "elm", "beech", "birch", "maple", "willow", "poplar", "lime", "alder", "rowan", "hazel", "holly"),
    *("yew", "pine", "fir", "spruce", "larch", "cedar", "cypress", "apple", "pear", "plum", "cherry", "quince"),
    *("medlar", "almond", "walnut", "chestnut", "olive", "fig", "mulberry", "laurel", "myrtle", "box", "elder"),
)


def histogram(story: Story) -> None:
    """Make people, ask each of them for their favourite tree, and estimate what all of them like."""
    folder = story.folder
    story.chapter("A histogram")
    shares = 1 / np.arange(1, len(_SPECIES) + 1)
    held = np.random.default_rng(7).choice(len(_SPECIES), _PEOPLE, p=shares / shares.sum())
    rows = "".join(f"{person},{_SPECIES[tree]}\n" for person, tree in enumerate(held))
    (folder / "people.csv").write_text("person,tree\n" + rows)
    (folder / "trees.txt").write_text("\n".join(_SPECIES) + "\n")
    story.say(
        f"{_PEOPLE:,} people, {len(_SPECIES)} kinds of trees: which mechanism is the best for central ε = {_EPSILON}?"
    )
    setting = f"--categories {len(_SPECIES)} --reports {_PEOPLE} --epsilon {_EPSILON} --delta {_DELTA}"
    story.run(f"plan {setting} --output {folder}/plan.json --plot {folder}/plan.png")
    story.shows(
        "plan.png",
        "The error of each mechanism against the central ε, between a trusted curator and no shuffler at all; the "
        "circle is the plan.",
    )
    story.say("Each person randomizes, a shuffler permutes, an analyst counts and estimates:")
    story.run(
        f"randomize {folder}/people.csv --column tree --categories {folder}/trees.txt --schema {folder}/plan.json "
        f"--output {folder}/reports.shoal"
    )
    story.run(f"shuffle {folder}/reports.shoal --output {folder}/shuffled.shoal")
    story.run(f"aggregate {folder}/shuffled.shoal --output {folder}/counts.shoal")
    story.run(f"estimate {folder}/counts.shoal --delta {_DELTA} --top 8 --output {folder}/trees.csv")
    story.say("Beside the truth, which only this demo knows:")
    truth = np.bincount(held, minlength=len(_SPECIES)) / _PEOPLE
    counts = read_counts(folder / "counts.shoal").counts
    estimate = counts.mechanism.estimate(counts)
    with story.printed(">>> counts.mechanism.estimate(counts)"):
        print(f"{'tree':<10} {'truth':>8} {'estimate':>9}   95 % interval")
        for tree in estimate.top(8):
            inside = estimate.lower[tree] <= truth[tree] <= estimate.upper[tree]
            print(
                f"{_SPECIES[tree]:<10} {truth[tree]:>8.5f} {estimate.frequencies[tree]:>9.5f}   "
                f"{estimate.lower[tree]:.5f} – {estimate.upper[tree]:.5f} {'' if inside else '  (missed)'}"
            )
        covered = np.mean((estimate.lower <= truth) & (truth <= estimate.upper))
        print(f"{100 * covered:.0f} % of all intervals hold the truth")
    axes = estimate.plot(names=_SPECIES, truth=truth)
    axes.figure.savefig(folder / "trees.png", dpi=130)
    story.shows(
        "trees.png", "The estimate of every tree with its 95 % interval, and the truth, which nobody else sees."
    )
