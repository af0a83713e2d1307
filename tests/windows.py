"""Windows, as far as shoal can tell: `python -m tests.windows MODULE ARGUMENTS` runs a module as if it were there.

What Windows lacks is gone (fcntl, resource, flags of open, signals, owners), and msvcrt locks as it does there: a byte
at once or not at all, with EACCES if somebody else has it. The file system is not simulated: a file that is open
can be replaced here, and names may have a colon.
"""

import asyncio  # these libraries look at the system when they are imported, and want the real one
import errno
import importlib
import multiprocessing
import os
import runpy
import signal
import sqlite3
import ssl
import subprocess
import sys
import tempfile
import types
from concurrent import futures

_LIBRARIES = (asyncio, futures, multiprocessing, sqlite3, ssl, subprocess, tempfile)
_GONE = {
    os: ("O_CLOEXEC", "O_DIRECTORY", "O_NOFOLLOW", "fchmod", "fchown", "fork", "geteuid", "getuid"),
    signal: ("SIGHUP", "SIGKILL", "SIGUSR1"),
}


def simulate() -> None:
    """Make this process look as if it were on Windows."""
    import fcntl

    for name in ("cryptography.x509", "cyclopts", "flint", "http.client", "numpy", "rich.console", "urllib.request"):
        importlib.import_module(name)
    flock, exclusive, free = fcntl.flock, fcntl.LOCK_EX | fcntl.LOCK_NB, fcntl.LOCK_UN

    def locking(descriptor: int, mode: int, _: int) -> None:
        try:
            flock(descriptor, exclusive if mode else free)
        except BlockingIOError:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES)) from None

    msvcrt = types.ModuleType("msvcrt")
    vars(msvcrt).update(locking=locking, LK_NBLCK=2, LK_UNLCK=0)
    sys.modules["msvcrt"] = msvcrt
    for name in ("fcntl", "resource", "pwd", "grp"):
        sys.modules[name] = None  # type: ignore[assignment]
    for module, names in _GONE.items():
        for name in names:
            if hasattr(module, name):
                delattr(module, name)
    sys.platform = "win32"


if __name__ == "__main__":
    simulate()
    sys.argv = sys.argv[1:]
    if os.path.isfile(sys.argv[0]):
        runpy.run_path(sys.argv[0], run_name="__main__")
    else:
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
