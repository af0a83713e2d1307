"""How the demo tells its story: a sentence, and a command with what it prints."""

from shoal.cli import main

__all__ = ["run", "say"]


def say(text: str) -> None:
    """Print a sentence of the story."""
    print(f"\n# {text}", flush=True)


def run(command: str) -> None:
    """Print and run a command."""
    print(f"$ shoal {command}", flush=True)
    if main(command.split()):
        raise SystemExit(1)
