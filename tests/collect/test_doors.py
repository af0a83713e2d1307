"""The public face of `shoal.collect`: every name is there, and loads nothing but what it needs."""

import subprocess
import sys

import pytest

from shoal import collect

SERVER = ("starlette", "uvicorn", "uvloop", "psycopg", "pyspark")


def test_public_names_are_there() -> None:
    assert dir(collect) == collect.__all__
    for name in collect.__all__:
        assert getattr(collect, name).__name__ == name
    with pytest.raises(AttributeError, match="nothing"):
        _ = collect.nothing


@pytest.mark.slow
def test_the_client_and_the_analyst_load_no_server() -> None:
    names = "Analyst, Connection, Sender, Task, analyst_key, fetch_task"
    script = f"import sys; from shoal.collect import {names}; print([n for n in {SERVER!r} if n in sys.modules])"
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, text=True)
    assert result.stdout.strip() == "[]"


@pytest.mark.slow
def test_importing_shoal_loads_no_collection() -> None:
    script = "import sys, shoal; print([name for name in sys.modules if name.startswith('shoal.collect')])"
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, text=True)
    assert result.stdout.strip() == "[]"
