"""A collection, from keys to a histogram: a shuffler, a crowd and an analyst, each in a process of its own."""

from pathlib import Path

from examples.story import run, say


def collection(folder: Path) -> None:
    """Run the demonstration, and keep its picture."""
    say(
        "Nobody has to be trusted with the data: 10,000 people seal their reports, a shuffler mixes, an analyst counts."
    )
    run(f"collect demo --people 10_000 --plot {folder}/collected.png")
