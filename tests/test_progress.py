"""Progress on a terminal: a bar, or the seconds that have passed; nothing where nobody watches."""

import io
import threading
import time
from contextlib import redirect_stderr

import pytest

from shoal import progress as module
from shoal.progress import followed, progress, waiting


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> _Terminal:
    monkeypatch.setattr(module, "_PATIENCE", 0.01)
    return _Terminal()


def test_a_bar_is_drawn_and_wiped_off(terminal: _Terminal) -> None:
    with redirect_stderr(terminal):
        for _ in progress(range(3), total=3, label="work"):
            time.sleep(0.02)
    assert "work [" in terminal.getvalue()
    assert "3/3" in terminal.getvalue()
    assert terminal.getvalue().endswith("\r\x1b[2K")


def test_positions_are_followed(terminal: _Terminal) -> None:
    done = [0]
    with redirect_stderr(terminal):
        for item in followed(iter(range(1, 5)), lambda: done[0], 4, "reading"):
            time.sleep(0.06)
            done[0] = item
    assert "reading [" in terminal.getvalue()


def test_seconds_are_counted_where_nobody_knows_the_end(terminal: _Terminal) -> None:
    before = threading.enumerate()
    with redirect_stderr(terminal), waiting("proving"):
        time.sleep(0.1)
    assert "\rproving: 0 s " in terminal.getvalue()
    assert terminal.getvalue().endswith("\r\x1b[2K")
    assert set(threading.enumerate()) <= set(before)


def test_nothing_else_is_shown_while_a_clock_runs(terminal: _Terminal) -> None:
    with redirect_stderr(terminal), waiting("searching"):
        with waiting("proving"):
            for _ in progress(range(3), total=3, label="work", patience=0.0):
                time.sleep(0.05)
        time.sleep(0.05)
    assert "searching" in terminal.getvalue()
    assert "work" not in terminal.getvalue() and "proving" not in terminal.getvalue()


def test_the_clock_stops_if_the_block_fails(terminal: _Terminal) -> None:
    before = threading.enumerate()
    with redirect_stderr(terminal), pytest.raises(KeyboardInterrupt), waiting("proving"):
        raise KeyboardInterrupt
    assert terminal.getvalue() == ""
    assert set(threading.enumerate()) <= set(before)


def test_nothing_is_printed_where_nobody_watches(capsys: pytest.CaptureFixture[str]) -> None:
    with waiting("proving"):
        assert list(progress(range(2), total=2, label="work", patience=0.0)) == [0, 1]
    assert capsys.readouterr().err == ""
