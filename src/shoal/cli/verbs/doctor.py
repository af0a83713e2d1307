"""The verb `doctor`: what is wrong with an installation."""

import importlib
import importlib.metadata
import platform
import re
import secrets
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import shoal
from shoal.cli.app import OTHER, app
from shoal.cli.collect_output import print_checks
from shoal.cli.options import Json
from shoal.cli.output import show

_REQUIREMENT = re.compile(r"([\w-]+)(?:\[.*?\])?[^;]*>=([0-9.]+)[^;]*(?:;.*extra == '([\w-]+)')?")
"""A library, its least version, and the extra that it belongs to, if any, as the package states them."""
_MODULES = {"python-flint": "flint", "dp-accounting": "dp_accounting"}
"""What is imported where it has another name."""
_SLOW = ("torch", "pyspark", "dp_accounting", "pandas", "matplotlib")
"""These are looked for, and not imported: that takes seconds."""
_EPSILON = 0.0432
_LITTLE, _TOO_LITTLE = 1 << 30, 1 << 24


class Check(NamedTuple):
    """What was looked at, how it stands (fine, note or wrong), the result, and what to do."""

    check: str
    state: str
    result: str
    fix: str = ""


@app.command(group=OTHER, help_epilogue="Example:  shoal doctor --folder /var/lib/shoal")
def doctor(*, folder: Path = Path(), json: Json = False) -> int:
    """Check this installation, one line a check, with what to do; exit status 1 if something that is needed is broken.

    Parameters
    ----------
    folder
        where reports or counts are going to be kept: can it be written durably, and is there space?
    """
    checks = [
        check for examine in (_python, _libraries, _work, _stores, _tools, _terminal) for check in examine(folder)
    ]
    show({"checks": [check._asdict() for check in checks]}, print_checks, json=json)
    return int(any(check.state == "wrong" for check in checks))


def _python(_: Path) -> Iterator[Check]:
    fine = sys.version_info >= (3, 11)
    result = f"{platform.python_version()} on {platform.system()}, shoal {shoal.__version__}"
    yield Check("Python", "fine" if fine else "wrong", result, "" if fine else "Install Python 3.11 or newer")


def _requirements() -> dict[str, tuple[str, str | None]]:
    """Return the least version and the extra of all libraries; those of the command line are needed to be this far."""
    requirements: dict[str, tuple[str, str | None]] = {}
    for text in importlib.metadata.requires("shoal-dp") or ():
        parts = _REQUIREMENT.match(text)
        if parts is not None and parts[3] not in ("all", "dev"):
            requirements.setdefault(parts[1], (parts[2], None if parts[3] == "cli" else parts[3]))
    return requirements


def _libraries(_: Path) -> Iterator[Check]:
    try:
        requirements = _requirements()
    except importlib.metadata.PackageNotFoundError:
        yield Check("shoal-dp", "note", "not installed, so its libraries are not known", "Run: pip install .")
        return
    for name, (least, extra) in requirements.items():
        module = _MODULES.get(name, name)
        install = f'pip install "shoal-dp[{extra}]"' if extra else f"pip install --upgrade '{name}>={least}'"
        missing = "note" if extra else "wrong"
        try:
            version = importlib.metadata.version(name)
            if module not in _SLOW:
                importlib.import_module(module)
        except importlib.metadata.PackageNotFoundError:
            yield Check(name, missing, "not installed", f"If you need it: {install}" if extra else f"Run: {install}")
        except Exception as error:  # a broken library may raise anything
            yield Check(name, "wrong", f"does not load: {error!r:.200}", f"Run: {install} --force-reinstall")
        else:
            old = _parsed(version) < _parsed(least)
            fix = f"{least} or newer is needed. Run: {install}" if old else ""
            yield Check(name, "wrong" if old else "fine", version, fix)


def _parsed(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall("[0-9]+", version)[:2])


def _work(_: Path) -> Iterator[Check]:
    """Run what everything rests on."""
    advice = "Install shoal and its libraries anew, in a fresh environment"
    tests: tuple[tuple[str, Callable[[], str]], ...] = (
        ("coins", _coins),
        ("sealing", _sealing),
        ("a known ε", _known),
    )
    for name, test in tests:
        try:
            yield Check(name, "fine", test())
        except Exception as error:  # whatever it is, it is what is wrong
            yield Check(name, "wrong", f"{error!r:.200}", advice)


def _coins() -> str:
    """Toss 64,000 coins: twice the same is out of the question, and half of them are heads within 7 deviations."""
    mechanism = shoal.RandomizedResponse(categories=2, local_epsilon=1e-6)
    first, second = (mechanism.randomize([0] * 64_000) for _ in range(2))
    heads = int(first.sum())
    if (first == second).all() or abs(heads - 32_000) > 7 * 126.5:
        raise RuntimeError(f"{heads:,} of 64,000 coins are heads")
    return "from the operating system, through a cipher"


def _sealing() -> str:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
    from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite

    key, text = X25519PrivateKey.generate(), secrets.token_bytes(32)
    suite = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.AES_128_GCM)
    sealed = suite.encrypt(text, key.public_key(), info=b"doctor")
    if text in sealed or suite.decrypt(sealed, key, info=b"doctor") != text:
        raise RuntimeError("what was sealed does not open")
    return "HPKE (RFC 9180) seals and opens"


def _known() -> str:
    curve = shoal.amplify(local_epsilon=1, reports=10_000, bound="strong-clones")
    epsilon = curve.epsilon(1e-6)
    if abs(epsilon - _EPSILON) > 1e-3 or curve.certify(delta=1e-6).epsilon < epsilon - 1e-12:
        raise RuntimeError(f"ε = {epsilon} instead of about {_EPSILON}")
    return f"ε = {epsilon:.6f} for 10,000 reports with ε₀ = 1, by strong-clones, proved in ball arithmetic"


def _stores(folder: Path) -> Iterator[Check]:
    """Have each kind of store examine the folder, and look how much space is left."""
    from shoal.collect.stores import kinds

    other = "Give --folder one on a local disk that this user may write to"
    if not folder.is_dir():
        yield Check("folder", "wrong", f"there is no folder {folder}", other)
        return
    for kind in dict.fromkeys(kinds().values()):
        yield from (Check(*result) for result in kind.examined(folder))
    try:
        free = shutil.disk_usage(folder).free
    except OSError as error:
        yield Check("space", "wrong", f"{folder}: {error.strerror}", other)
        return
    state = "wrong" if free < _TOO_LITTLE else "note" if free < _LITTLE else "fine"
    fix = "" if state == "fine" else "Free some: a million reports take about 0.2 GB"
    yield Check("space", state, f"{free / 1e9:,.1f} GB free in {folder.resolve()}", fix)


def _tools(_: Path) -> Iterator[Check]:
    """Look for the program that an extra needs."""
    java = shutil.which("java")
    if java is None:
        yield Check("Java", "note", "not installed", "`--engine spark` needs it: apt install default-jre-headless")
    else:
        try:
            said = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=20, check=True).stderr
            yield Check("Java", "fine", (said.splitlines() or [java])[0])
        except (OSError, subprocess.SubprocessError) as error:
            yield Check("Java", "note", f"{java} does not run: {error!r:.200}", "Install it anew for `--engine spark`")


def _terminal(_: Path) -> Iterator[Check]:
    encoding = sys.stdout.encoding or "unknown"
    fine = encoding.lower().replace("-", "").startswith("utf")
    fix = "" if fine else "Greek letters are spelled out. To see them: export PYTHONIOENCODING=utf-8"
    yield Check("terminal", "fine" if fine else "note", encoding, fix)
