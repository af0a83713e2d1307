"""A year of daily rounds: the best daily histogram for a budget, how long a budget lasts, and what is left of it."""

from examples.story import Story

__all__ = ["telemetry"]


def telemetry(story: Story) -> None:
    """Plan a year, add up rounds, and ask what is left after the first month."""
    folder = story.folder
    story.chapter("A year of rounds")
    story.say("50,000 devices send one of 200 categories every day. What is the best that a year under ε = 1 allows?")
    story.run("plan --categories 200 --reports 50_000 --epsilon 1 --rounds 365")
    story.say("A million devices a day, with ε₀ = 2: what does the year cost, and when is a budget of ε = 0.5 spent?")
    story.run(
        "compose --local-epsilon 2 --reports 1e6 --rounds 365 --delta 1e-6 --epsilon 0.5 --start 2026-01-01 "
        f"--plot {folder}/year.png"
    )
    story.shows(
        "year.png",
        "The ε of all rounds together against their number: privacy losses are added up, not just ε, and so it grows "
        "like a square root. The line is the budget, and the day on which it is spent stands below.",
    )
    story.say("A ledger has the first month. How large may ε₀ be for the rest of the year?")
    ledger = folder / "telemetry.json"
    ledger.unlink(missing_ok=True)
    story.run(
        f"ledger record {ledger} --local-epsilon 2 --reports 1e6 --rounds 31 --epsilon 0.5 --planned --label January"
    )
    story.run(f"calibrate --ledger {ledger} --reports 1e6 --rounds 334")
