"""How many files the process may have open, and how many of them are for the connections of strangers."""

import logging
import sys

from shoal.collect.log import Log
from shoal.errors import ParameterError

__all__ = ["ANALYST_CONNECTIONS", "check_system", "public_connections"]

_MOST_CONNECTIONS, _FEW_CONNECTIONS, _LEAST_CONNECTIONS = 20_000, 10_000, 64
"""How many are wanted, how few are worth a warning, and with how few there is no use in starting."""
ANALYST_CONNECTIONS = 32
_RESERVE = 2 * ANALYST_CONNECTIONS + 200 + 56
"""For the analyst, each of whose connections reads a batch; for the buckets of a release; and for the store."""


def check_system() -> None:
    """Refuse a system on which the shuffler cannot keep its promises: Windows lacks its signals and limits."""
    if sys.platform == "win32":
        raise ParameterError(
            "the shuffler runs on Linux and macOS, and not on Windows; run it there, in a container, or in the Windows "
            "Subsystem for Linux. People can report from Windows, and every number can be asked for there"
        )


def public_connections(log: Log) -> int:
    """Raise the limit on open files as far as it goes, and return how many of them may be connections of strangers.

    Parameters
    ----------
    log : Log
        Is written to if there are fewer than usual.
    """
    import resource

    wanted = _MOST_CONNECTIONS + _RESERVE
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = resource.RLIM_INFINITY
    if soft != unlimited and soft < wanted:
        soft = wanted if hard == unlimited else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    room = _MOST_CONNECTIONS if soft == unlimited else min(_MOST_CONNECTIONS, soft - _RESERVE)
    if room < _LEAST_CONNECTIONS:
        raise ParameterError(
            f"no more than {soft:,} files may be open here, and the shuffler needs {_RESERVE + _LEAST_CONNECTIONS:,} "
            f"at least; raise the hard limit to {wanted:,} (`ulimit -Hn`, or LimitNOFILE= of systemd)"
        )
    if room < _FEW_CONNECTIONS:
        log.tell(
            logging.WARNING,
            "few-files",
            files=soft,
            connections=room,
            detail=f"the hard limit on open files allows no more connections; {wanted} is enough (LimitNOFILE=)",
        )
    return room
