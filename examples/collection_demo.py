"""A whole collection on one machine: keys, a task, a shuffler, a crowd and an analyst, each in a process of its own.

Run it in a checkout: ``python -m examples.collection_demo --people 10_000 --folder demonstration``. Each command is
printed as it is run, and can be run by hand. Nothing leaves this machine.
"""

import argparse
import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from itertools import chain, count
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from examples.crowd import SHARES
from shoal.checks import whole
from shoal.cli.output import grid, print_json, print_parts
from shoal.cli.report_output import add_note
from shoal.collect import Connection
from shoal.digits import rounded_up
from shoal.durable_file import cleaned_up, whole_file
from shoal.errors import CollectError, ParameterError, ShoalError
from shoal.progress import progress

__all__ = ["demonstrate", "main", "tie"]

_QUESTION = "How did you travel today?"
_NAMES = ("on foot", "bicycle", "bus", "train", "tram", "car", "boat", "not at all")
_MECHANISM, _LOCAL_EPSILON, _LIMIT, _DELTA = "subset-selection", 2.5, 1.0, 1e-6
_LEAST = 245
"""Reports that keep the limit, as `shoal calibrate` finds them; the task refuses a minimum that does not."""
_SHARE = 0.9
"""Of the people, how many a round needs: whoever is late reports in the next one."""
_PACE, _SHORTEST = 1000, 4
"""Reports a second that the length of a round is chosen for, and its least seconds; a slower machine extends it."""
_PATIENCE = 60.0
_END = 5.0
_POLL = 0.2
_PICTURE = "collected.png"
_WIDTH = 32
_CHECKOUT = Path(__file__).resolve().parents[1]
_TIED = "from examples.collection_demo import tie; tie(); "
_SHOAL = (sys.executable, "-c", _TIED + "from shoal.cli import main; raise SystemExit(main())")
_CROWD = (sys.executable, "-c", _TIED + "from examples.crowd import main; main()")


def demonstrate(people: float, folder: Path | None, plot: Path | None, say: Callable[[str], None]) -> dict[str, Any]:
    """Collect from made-up people, from keys to a histogram, and return the result.

    Parameters
    ----------
    people : float
        How many.
    folder : Path or None
        Where everything is left, to be looked at; None removes it in the end.
    plot : Path or None
        A .png file for the histogram, besides the one in the folder.
    say : callable
        Is given each command and what it printed.
    """
    number = whole(people=people, least=_LEAST + 2, most=1_000_000)
    if plot is not None and (plot.suffix.lower() != ".png" or not plot.parent.is_dir()):
        raise ParameterError(f"plot must be a .png file in a folder that is there, got {str(plot)!r}")
    malicious = number // 100
    least = _LEAST + malicious
    begun = time.monotonic()
    with ExitStack() as stack:
        stack.enter_context(cleaned_up())
        if folder is None:
            path = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="shoal-demo-")))
        else:
            path = folder
            if path.exists() and (not path.is_dir() or any(path.iterdir())):
                raise ParameterError(f"{path} is not an empty folder; give --folder a new one")
            path.mkdir(parents=True, exist_ok=True)
        facts = _Demonstration(path, stack, say).run(number, max(round(_SHARE * number), least), malicious)
        if plot is not None:
            with whole_file(plot) as file:
                file.write((path / _PICTURE).read_bytes())
    return facts | {"seconds": time.monotonic() - begun, "folder": None if folder is None else str(folder)}


class _Demonstration:
    """One run of it in a folder; whatever it starts ends with the stack."""

    def __init__(self, folder: Path, stack: ExitStack, say: Callable[[str], None]) -> None:
        self._folder, self._stack, self._say = folder, stack, say
        self._tie, ours = os.pipe()
        stack.callback(os.close, self._tie)
        stack.callback(os.close, ours)

    def run(self, people: int, minimum: int, malicious: int) -> dict[str, Any]:
        """Go through all steps."""
        self._shoal("keygen", "analyst", "--folder", "analyst")
        self._shoal("keygen", "shuffler", "--folder", "shuffler")
        options = {
            "--question": _QUESTION,
            "--categories": ",".join(_NAMES),
            "--mechanism": _MECHANISM,
            "--local-epsilon": f"{_LOCAL_EPSILON:g}",
            "--epsilon-limit": f"{_LIMIT:g}",
            "--delta": f"{_DELTA:g}",
            "--minimum": str(minimum),
            "--malicious": str(malicious),
            "--round": str(max(_SHORTEST, -(-people // _PACE))),
            "--analyst-key": "analyst/analyst.pub",
            "--shuffler-key": "shuffler/shuffler.pub",
        }
        self._shoal("task", "new", *(word for option in options.items() for word in option))
        listening = self._serve()
        rounds = self._crowd(listening["url"], people)
        with Connection(
            listening["analyst_url"],
            self._folder / "shuffler/shuffler-tls.crt",
            self._folder / "analyst/analyst-tls.crt",
            self._folder / "analyst/analyst-tls.key",
        ) as connection:
            self._wait(connection, listening["task"], listening["closes"])
        pulling = ("--shuffler", listening["analyst_url"], "--ca", "shuffler/shuffler-tls.crt")
        identity = ("--certificate", "analyst/analyst-tls.crt", "--certificate-key", "analyst/analyst-tls.key")
        round_one = ("--task", "task.json", "--folder", "work", "--round", "1")
        self._shoal("analyst", "pull", *round_one, *pulling, *identity)
        self._shoal("analyst", "count", *round_one, "--key", "analyst/analyst.key")
        self._shoal("analyst", "pull", *round_one, *pulling, *identity)  # it is counted, and the shuffler may delete it
        self._shoal("analyst", "estimate", *round_one, "--output", "result.json", "--plot", _PICTURE)
        result: dict[str, Any] = json.loads((self._folder / "result.json").read_text(encoding="utf-8"))
        inside = [
            lower <= truth <= upper
            for lower, truth, upper in zip(result["lower"], SHARES, result["upper"], strict=True)
        ]
        return {"people": people, "sent": rounds, **result, "truth": list(SHARES), "intervals_that_hold": sum(inside)}

    def _shoal(self, *words: str) -> None:
        """Run a command to its end, and repeat what it printed."""
        self._say(f"$ shoal {_quoted(words)}")
        process = self._start((*_SHOAL, *words))
        out, _ = process.communicate()
        if process.returncode:
            raise CollectError(f"`shoal {words[0]} {words[1]}` failed, as it says above")
        self._say(out.rstrip("\n"))

    def _serve(self) -> dict[str, Any]:
        """Start the shuffler on free ports, and return where it listens."""
        keys = {
            "--task": "task.json",
            "--key": "shuffler/shuffler.key",
            "--folder": "rounds",
            "--tls-certificate": "shuffler/shuffler-tls.crt",
            "--tls-key": "shuffler/shuffler-tls.key",
            "--analyst-certificate": "analyst/analyst-tls.crt",
            "--port": "0",
            "--analyst-port": "0",
        }
        words = ("shuffler", "serve", *(word for option in keys.items() for word in option), "--open")
        self._say(f"$ shoal {_quoted(words)} &")
        process = self._start((*_SHOAL, *words, "--json"))
        facts: dict[str, Any] = json.loads("".join(_until_brace(_lines(process, _PATIENCE))))
        self._say(f"listening: {facts['url']}, and for the analyst {facts['analyst_url']}")
        return facts

    def _crowd(self, url: str, people: int) -> dict[str, int]:
        """Have everybody report, and return how many did so in which round."""
        self._say(f"\n{people:,} people, each of whom randomizes, seals and sends one report over TLS …")
        ca = "shuffler/shuffler-tls.crt"
        begun = time.monotonic()
        process = self._start((*_CROWD, "task.json", url, ca, str(people)))
        last: dict[str, Any] = {"sent": 0}
        bar = progress(range(people), total=people, label="people")
        for line in _lines(process, _PATIENCE):
            last, before = json.loads(line), last["sent"]
            for _ in range(last["sent"] - before):
                next(bar, None)
        bar.close()  # type: ignore[attr-defined]
        if process.wait() or "rounds" not in last:
            raise CollectError("the people could not report, as it says above")
        rounds: dict[str, int] = last["rounds"]
        taken = time.monotonic() - begun
        counts = ", ".join(f"{count:,} in round {number}" for number, count in rounds.items())
        self._say(f"{counts}; it took {taken:.1f} s, {people / taken:,.0f} a second")
        return rounds

    def _wait(self, connection: Connection, task: str, closes: float) -> None:
        """Wait until the first round has ended by its time and its minimum, and is released."""
        self._say("waiting for the round to end …")
        begun = time.monotonic()
        polls = max(1, round((closes - time.time()) / _POLL))
        for _ in chain(progress(range(polls), total=polls, label="the round"), count()):
            answer = connection.request("GET", f"/v1/tasks/{task}/rounds")
            rounds = answer.member("rounds")
            if answer.status != 200 or not isinstance(rounds, list):
                raise CollectError(f"the shuffler does not tell its rounds: {answer.problem()}")
            if any(one["round"] == 1 and one["state"] == "ready" for one in rounds):
                return
            if time.monotonic() - begun > 10 * _PATIENCE:
                raise CollectError("the round does not end; is the clock of this machine right?")
            time.sleep(_POLL)

    def _start(self, words: Sequence[str]) -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            words,
            cwd=self._folder,
            text=True,
            encoding="utf-8",
            env=os.environ
            | {"PYTHONIOENCODING": "utf-8", "PYTHONUNBUFFERED": "1"}
            | {"PYTHONPATH": os.pathsep.join([str(_CHECKOUT), *filter(None, [os.environ.get("PYTHONPATH")])])},
            stdin=self._tie,
            stdout=subprocess.PIPE,
            start_new_session=True,  # what is typed here is for this process, which ends the others
        )
        self._stack.enter_context(_ended(process))
        return process


def tie() -> None:
    """Have this process end with the one that started it, however that ends: its standard input is closed then."""

    def watch() -> None:
        with suppress(OSError):
            while os.read(0, 1):
                pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True).start()


@contextmanager
def _ended(process: "subprocess.Popen[str]") -> Iterator[None]:
    """Let a process end with the block, by force if it must be."""
    try:
        yield
    finally:
        with suppress(OSError):
            process.terminate()
        try:
            process.wait(_END)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()


def _lines(process: "subprocess.Popen[str]", patience: float) -> Iterator[str]:
    """Yield what a process prints, line by line, and do not wait for ever for one."""
    lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()

    def read() -> None:
        assert process.stdout is not None
        with suppress(ValueError):  # it was closed
            for line in process.stdout:
                lines.put(line)
        lines.put(None)

    threading.Thread(target=read, daemon=True).start()
    while True:
        try:
            line = lines.get(timeout=patience)
        except queue.Empty:
            raise CollectError(f"nothing has happened for {patience:.0f} seconds; is this machine very busy?") from None
        if line is None:
            return
        yield line


def _until_brace(lines: Iterator[str]) -> Iterator[str]:
    """Yield the lines of one JSON object that is printed with indents."""
    for line in lines:
        yield line
        if line.startswith("}"):
            return
    raise CollectError("the shuffler did not start, as it says above")


def _quoted(words: Sequence[str]) -> str:
    return " ".join(f"'{word}'" if " " in word or "," in word else word for word in words)


def _print(facts: dict[str, Any]) -> None:
    """Print the estimate next to the truth, which only a demonstration knows."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("category", no_wrap=True)
    for name in ("truth", "estimate", "95 % interval"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    most = max(facts["upper"])
    for name, truth, estimate, lower, upper in zip(
        *(facts[key] for key in ("category", "truth", "frequency", "lower", "upper")), strict=True
    ):
        solid, total = round(_WIDTH * lower / most), round(_WIDTH * upper / most)
        line = "█" * solid + "▒" * (total - solid)
        table.add_row(str(name), f"{truth:.4f}", f"{estimate:.4f}", f"{lower:.4f} – {upper:.4f}", line)
    below = grid()
    add_note(below, facts, list(range(len(facts["truth"]))))
    below.add_row("intervals", f"{facts['intervals_that_hold']} of {len(facts['truth'])} hold the truth")
    below.add_row("local guarantee", f"ε₀ = {rounded_up(facts['local_epsilon'])}, for each report by itself")
    central = f"ε = {rounded_up(facts['epsilon'])} at δ = {facts['delta']!r}"
    below.add_row("central guarantee", f"{central}, for {facts['reports_accounted']:,} reports accounted")
    below.add_row("folder", facts["folder"] or "removed, with all files named above; --folder NAME keeps it")
    headline = f"{facts['people']:,} people, from keys to a histogram in {facts['seconds']:.0f} s"
    print_parts(Text(""), Text(headline, style="bold"), table, below)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demonstration, and return its exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m examples.collection_demo", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--people", type=float, default=10_000, help="how many there are, 247 at least")
    parser.add_argument("--folder", type=Path, help="an empty or new folder in which everything is left")
    parser.add_argument("--plot", type=Path, help="put the histogram into this file (.png)")
    parser.add_argument("--json", action="store_true", help="print the result as JSON, and nothing else")
    asked = parser.parse_args(arguments)
    say = (lambda _: None) if asked.json else partial(print, flush=True)
    try:
        facts = demonstrate(asked.people, asked.folder, asked.plot, say)
    except ShoalError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    (print_json if asked.json else _print)(facts)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
