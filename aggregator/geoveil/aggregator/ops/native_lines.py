"""What native code writes to standard error, gRPC's core above all, becomes lines of the log."""

import fcntl
import logging
import os
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_PIPE_BYTES = 1 << 20
_STDERR = 2
# For example "E0000 00:00:1763.42 71 ssl_transport.cc:1884] Handshake failed".
_CORE = re.compile(r"([IWEF])\d{4} [\d:.]+ +\d+ ([\w./-]+:\d+)\] (.*)")
_LEVELS = {"I": logging.INFO, "W": logging.WARNING, "E": logging.ERROR, "F": logging.CRITICAL}


@contextmanager
def native_lines_logged() -> Iterator[None]:
    """Log each line that comes to standard error within the block.

    Writers never wait: what comes faster than it is logged is lost beyond a megabyte.
    """
    sys.stderr.flush()
    before = os.dup(_STDERR)
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
    os.set_blocking(writing, False)
    os.dup2(writing, _STDERR)
    os.close(writing)
    thread = threading.Thread(target=_log_lines, args=(reading,), name="native", daemon=True)
    thread.start()
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(before, _STDERR)  # the last end of the pipe that is written to
        os.close(before)
        thread.join(1.0)


def _log_lines(descriptor: int) -> None:
    with os.fdopen(descriptor, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            if line.strip():
                _log(line.rstrip())


def _log(line: str) -> None:
    core = _CORE.match(line)
    if core:
        level, where, text = core.groups()
        logging.getLogger(f"native.{where}").log(_LEVELS[level], "%s", text)
    else:
        logging.getLogger("native").warning("%s", line)
