"""The main job, told in two minutes: what shuffling buys, questions backwards, a histogram, a model, a collection."""

from pathlib import Path

import shoal
from examples.collection import collection
from examples.histogram import histogram
from examples.story import run, say
from examples.training import training

_FOLDER = Path("demo")


def demo() -> None:
    """Run the commands that a privacy engineer runs first."""
    _FOLDER.mkdir(exist_ok=True)
    say("10,000 devices each send one report with local ε₀ = 1. What does shuffling make of it?")
    run(f"amplify --local-epsilon 1 --reports 10_000 --delta 1e-6 --certify --plot {_FOLDER}/curve.png")
    say("Which local ε₀ may they use if the central ε has to be 1?")
    run("calibrate --epsilon 1 --delta 1e-6 --reports 10_000")
    say("How many devices does ε₀ = 4 need for a central ε of 0.1?")
    run("calibrate --epsilon 0.1 --delta 1e-6 --local-epsilon 4")
    say("How do the bounds compare, and how far from the truth can the best one be?")
    run(f"compare --local-epsilon 4 --reports 1e6 --delta 1e-6 --plot {_FOLDER}/compare.png")
    say("The same devices, every day for a year, with ε₀ = 2 and a million reports a day:")
    run(f"compose --local-epsilon 2 --reports 1e6 --times 365 --delta 1e-6 --plot {_FOLDER}/year.png")
    say("If it is known what they run, the answer is tighter:")
    run("amplify --randomizer subset-selection --categories 50 --local-epsilon 2 --reports 1e6")
    say("A figure of the paper, beside our curves (`shoal figures` draws them all):")
    run(f"figures central-large --output {_FOLDER}")
    say("And a proof that a reviewer can check again, without trusting floating point:")
    certificate = shoal.amplify(local_epsilon=1, reports=10_000).certify(delta=1e-6)
    path = _FOLDER / "certificate.json"
    path.write_text(certificate.to_json())
    checked = shoal.Certificate.from_json(path.read_text()).verify()
    print(f"{certificate}\nwritten to {path}; checked again from the file: {checked}")
    histogram(_FOLDER)
    training(_FOLDER)
    collection(_FOLDER)
    print(f"\nPictures: {', '.join(sorted(str(path) for path in _FOLDER.glob('*.png')))}")


if __name__ == "__main__":
    demo()
