"""A collection, from keys to a histogram: a shuffler, a crowd and an analyst, each in a process of its own."""

from examples.collection_demo import main
from examples.story import Story


def collection(story: Story) -> None:
    """Run the demonstration, and keep its picture."""
    story.chapter("A collection")
    story.say("Nobody sees who said what: 4,000 people seal their reports, a shuffler mixes, an analyst counts.")
    options = f"--people 4_000 --plot {story.folder}/collected.png"
    with story.printed(f"$ python -m examples.collection_demo {options}"):
        if main(options.split()):
            raise SystemExit(1)
    story.shows(
        "collected.png",
        "What the analyst learns from the shuffled reports, with 95 % intervals: shares of all people, and "
        "nobody's own answer.",
    )
