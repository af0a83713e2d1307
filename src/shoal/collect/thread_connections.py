"""A connection to a database for each thread, since most libraries let no two threads share one."""

import threading
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

__all__ = ["ThreadConnections"]


class _Connection(Protocol):
    def close(self) -> None: ...


_C = TypeVar("_C", bound=_Connection)


class ThreadConnections(Generic[_C]):
    """Connections that are made when a thread first asks for one, and closed all at once.

    Parameters
    ----------
    connect : callable
        Makes a connection that any thread may close.
    """

    def __init__(self, connect: Callable[[], _C]) -> None:
        self._connect = connect
        self._local = threading.local()
        self.all: list[_C] = []

    def get(self) -> _C:
        """Return the connection of this thread."""
        connection: _C | None = getattr(self._local, "connection", None)
        if connection is None:
            self._local.connection = connection = self._connect()
            self.all.append(connection)
        return connection

    def drop(self) -> None:
        """Close the connection of this thread, so that the next one works."""
        connection: _C | None = getattr(self._local, "connection", None)
        if connection is not None:
            connection.close()
            self.all.remove(connection)
            self._local.connection = None

    def close(self) -> None:
        """Close all connections."""
        for connection in self.all:
            connection.close()
        self.all.clear()
        self._local = threading.local()
