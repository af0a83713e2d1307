"""The main job, told in a minute: what does shuffling buy, backwards questions, and a picture."""

from pathlib import Path

import shoal
from shoal.cli import main

_FOLDER = Path("demo")


def _say(text: str) -> None:
    print(f"\n# {text}", flush=True)


def _run(command: str) -> None:
    print(f"$ shoal {command}", flush=True)
    if main(command.split()):
        raise SystemExit(1)


def demo() -> None:
    """Run the commands that a privacy engineer runs first."""
    _FOLDER.mkdir(exist_ok=True)
    _say("10,000 devices each send one report with local ε₀ = 1. What does shuffling make of it?")
    _run(f"amplify --local-epsilon 1 --reports 10_000 --delta 1e-6 --certify --plot {_FOLDER}/curve.png")
    _say("Which local ε₀ may they use if the central ε has to be 1?")
    _run("calibrate --epsilon 1 --delta 1e-6 --reports 10_000")
    _say("How many devices does ε₀ = 4 need for a central ε of 0.1?")
    _run("calibrate --epsilon 0.1 --delta 1e-6 --local-epsilon 4")
    _say("How do the bounds compare, and how far from the truth can the best one be?")
    _run(f"compare --local-epsilon 4 --reports 1e6 --delta 1e-6 --plot {_FOLDER}/compare.png")
    _say("The same devices, every day for a year, with ε₀ = 2 and a million reports a day:")
    _run(f"compose --local-epsilon 2 --reports 1e6 --times 365 --delta 1e-6 --plot {_FOLDER}/year.png")
    _say("If it is known what they run, the answer is tighter:")
    _run("amplify --randomizer subset-selection --categories 50 --local-epsilon 2 --reports 1e6")
    _say("A figure of the paper, beside our curves (`shoal figures` draws them all):")
    _run(f"figures central-large --output {_FOLDER}")
    _say("And a proof that a reviewer can check again, without trusting floating point:")
    certificate = shoal.amplify(local_epsilon=1, reports=10_000).certify(delta=1e-6)
    path = _FOLDER / "certificate.json"
    path.write_text(certificate.to_json())
    checked = shoal.Certificate.from_json(path.read_text()).verify()
    print(f"{certificate}\nwritten to {path}; checked again from the file: {checked}")
    print(f"\nPictures: {', '.join(sorted(str(path) for path in _FOLDER.glob('*.png')))}")


if __name__ == "__main__":
    demo()
