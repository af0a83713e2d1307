"""How the demo tells its story: a sentence, a command with what it prints, and a picture with what it shows."""

import contextlib
import io
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from shoal.cli import main

__all__ = ["Chapter", "Command", "Step", "Story"]

_COLOURS = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


@dataclass(frozen=True)
class Command:
    """A command, or a line of Python, and what it printed."""

    line: str
    output: str


@dataclass
class Step:
    """A question in words, the commands that answer it, and a picture."""

    sentence: str
    commands: list[Command] = field(default_factory=list)
    picture: Path | None = None
    shows: str = ""


@dataclass
class Chapter:
    """A few steps that belong together."""

    title: str
    steps: list[Step] = field(default_factory=list)


class _Both(io.TextIOBase):
    """Writes to a stream, and keeps what was written."""

    def __init__(self, stream: TextIO) -> None:
        self._stream, self.kept = stream, io.StringIO()

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """That of the stream."""
        return self._stream.encoding

    def write(self, text: str, /) -> int:
        """Write to the stream, and keep it."""
        self._stream.write(text)
        return self.kept.write(text)

    def flush(self) -> None:
        """Flush the stream."""
        self._stream.flush()

    def isatty(self) -> bool:
        """Tell whether the stream is a terminal."""
        return self._stream.isatty()

    def fileno(self) -> int:
        """Return the file of the stream."""
        return self._stream.fileno()


class Story:
    """What was asked, run and drawn, in order; printed as it happens, and kept for the page.

    Parameters
    ----------
    folder : where pictures and other files go.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.chapters: list[Chapter] = []

    def chapter(self, title: str) -> None:
        """Begin a chapter."""
        self.chapters.append(Chapter(title))
        print(f"\n\n{title}\n{'=' * len(title)}", flush=True)

    def say(self, sentence: str) -> None:
        """Print a sentence of the story, with which a step begins."""
        self.chapters[-1].steps.append(Step(sentence))
        print(f"\n# {sentence}", flush=True)

    def run(self, command: str) -> None:
        """Print and run a command of shoal; the demo ends where one fails."""
        with self.printed(f"$ shoal {command}"):
            if main(command.split()):
                raise SystemExit(1)

    @contextlib.contextmanager
    def printed(self, line: str) -> Iterator[None]:
        """Keep what is printed inside as what this line prints."""
        print(line, flush=True)
        both = _Both(sys.stdout)
        with contextlib.redirect_stdout(both):
            yield
        self.chapters[-1].steps[-1].commands.append(Command(line, _COLOURS.sub("", both.kept.getvalue())))

    def shows(self, picture: str, sentence: str) -> None:
        """Say what a picture of the last step shows."""
        step = self.chapters[-1].steps[-1]
        step.picture, step.shows = self.folder / picture, sentence
