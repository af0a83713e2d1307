"""The main job, told in a minute: what shuffling buys, questions backwards, a year, a histogram, a model, a survey."""

import time
from pathlib import Path

import shoal
from examples.collection import collection
from examples.histogram import histogram
from examples.page import write_page
from examples.story import Story
from examples.telemetry import telemetry
from examples.training import training

_FOLDER = Path("demo")


def demo() -> None:
    """Run the commands that a privacy engineer runs first, and leave a page that shows them."""
    begun = time.monotonic()
    _FOLDER.mkdir(exist_ok=True)
    story = Story(_FOLDER)
    _guarantees(story)
    telemetry(story)
    histogram(story)
    training(story)
    collection(story)
    seconds = time.monotonic() - begun
    page = write_page(story, seconds).resolve()
    print(f"\n\nDone in {seconds:.0f} seconds. Everything that was made is in {_FOLDER}/, and one page shows it:")
    print(f"  {page}\n  {page.as_uri()}")


def _guarantees(story: Story) -> None:
    folder = story.folder
    story.chapter("Guarantees")
    story.say("10,000 devices each send one report with local ε₀ = 1. What does shuffling make of it?")
    story.run(f"amplify --local-epsilon 1 --reports 10_000 --delta 1e-6 --certify --plot {folder}/curve.png")
    story.shows(
        "curve.png",
        "The central ε of the shuffled reports for every δ, beside what no bound can go below. Each report by itself "
        "has ε₀ = 1.",
    )
    story.say("Which local ε₀ may they use if the central ε has to be 1?")
    story.run("calibrate --epsilon 1 --delta 1e-6 --reports 10_000")
    story.say("How many devices does ε₀ = 4 need for a central ε of 0.1?")
    story.run("calibrate --epsilon 0.1 --delta 1e-6 --local-epsilon 4")
    story.say("How do the bounds compare, and how far from the truth can the best one be?")
    story.run(f"compare --local-epsilon 4 --reports 1e6 --delta 1e-6 --plot {folder}/compare.png")
    story.shows(
        "compare.png", "Every bound that applies, the published ones too: lower is better, for the same reports."
    )
    story.say("If it is known what they run, the answer is tighter:")
    story.run("amplify --randomizer subset-selection --categories 50 --local-epsilon 2 --reports 1e6")
    story.say("And a proof that a reviewer can check again, without trusting floating point:")
    path = folder / "certificate.json"
    with story.printed(">>> shoal.amplify(local_epsilon=1, reports=10_000).certify(delta=1e-6)"):
        certificate = shoal.amplify(local_epsilon=1, reports=10_000).certify(delta=1e-6)
        path.write_text(certificate.to_json())
        checked = shoal.Certificate.from_json(path.read_text()).verify()
        print(f"{certificate}\nwritten to {path}; checked again from the file: {checked}")


if __name__ == "__main__":
    demo()
