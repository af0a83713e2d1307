"""A worker: a process that answers one question after the other, and can be ended in the middle of one.

It reads frames from standard input and writes frames to standard output: four bytes that say how long the rest is, and
the rest. A question is JSON. A reply is a status in two bytes, the length of the media type in one, that, and the body.
An empty frame comes first, when everything is imported.
"""

import json
import os
import signal
import struct
import sys
import threading
import time
from contextlib import suppress
from typing import BinaryIO

from shoal.questions.question import names
from shoal.web.reply import Reply, answered

__all__ = ["main", "packed", "unpacked"]

_MOST_MEMORY = 4 << 30
"""Bytes of addresses that a question may take; beyond it the question is refused, and the machine lives."""
_WATCH = 1.0
"""Seconds after which a worker looks whether whoever started it is still there."""


def packed(reply: Reply) -> bytes:
    """Return a reply as a frame.

    Parameters
    ----------
    reply : Reply
        What is sent.

    Examples
    --------
    >>> unpacked(packed(Reply(200, "text/plain", b"yes"))[4:])
    Reply(status=200, media_type='text/plain', body=b'yes')
    """
    kind = reply.media_type.encode()
    return struct.pack(">IHB", 3 + len(kind) + len(reply.body), reply.status, len(kind)) + kind + reply.body


def unpacked(frame: bytes) -> Reply:
    """Return the reply in a frame, without the four bytes of its length."""
    status, length = struct.unpack_from(">HB", frame)
    return Reply(status, frame[3 : 3 + length].decode(), frame[3 + length :])


def main() -> None:
    """Answer questions until standard input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to all processes of a terminal; the server ends us
    questions, replies = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever prints must not come between the frames
    _limit_memory()
    threading.Thread(target=_end_with_parent, args=(os.getppid(),), daemon=True).start()
    names()
    for form in ("facts", "code", "inline"):  # the first answer takes longer, as tables are made
        answered("amplify", {"reports": "1000", "local_epsilon": "1"}, None, form)
    replies.write(struct.pack(">I", 0))
    replies.flush()
    while (frame := _read(questions)) is not None:
        asked = json.loads(frame)
        replies.write(packed(answered(asked["question"], asked["texts"], asked["body"], asked["form"])))
        replies.flush()


def _read(stream: BinaryIO) -> bytes | None:
    head = stream.read(4)
    return stream.read(struct.unpack(">I", head)[0]) if len(head) == 4 else None


def _limit_memory() -> None:
    with suppress(ImportError, ValueError, OSError):  # Windows has no such limit
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (_MOST_MEMORY, _MOST_MEMORY))


def _end_with_parent(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_WATCH)
    os._exit(1)


if __name__ == "__main__":
    main()
