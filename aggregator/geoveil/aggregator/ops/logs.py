"""Logs: JSON for machines, lines for people; neither shows messages of foreign exceptions.

Modules log an event's name, from a closed list, with named fields as `extra`, but never a value, a
report, its id, or a caller's address.
"""

import asyncio
import fcntl
import logging
import os
import re
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TextIO

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from geoveil.aggregator.domain.errors import traceback_without_values
from geoveil.aggregator.domain.rates import Monotonic, Rate, TokenBuckets
from geoveil.aggregator.ops.settings import LOG_FORMATS, LOG_LEVELS
from geoveil.gp import GeoVeilError, validation

_LOG = logging.getLogger(__name__)
_OURS = "geoveil"
LIBRARY = "library"
"""The event of a library's own lines, whose text is the field `message`."""
_OUR_FIELDS = structlog.stdlib.ExtraAdder()
_ADDRESS = re.compile(
    r"(ipv[46]|unix(-abstract)?|vsock):[^\s,;'\")]+"
    r"|\b\d{1,3}(\.\d{1,3}){3}(:\d+)?"
    r"|\[?[0-9a-fA-F]*:[0-9a-fA-F:]*:[0-9a-fA-F.:]+(%\w+)?\]?(:\d+)?"
)
_OF_ONE_PLACE = Rate(per_second=0.2, burst=20.0)
"""The most warnings and errors from one place in the code, since outsiders can provoke them."""
_PIPE_BYTES = 1 << 20
_STDERR = 2
# For example "E0000 00:00:1763.42 71 ssl_transport.cc:1884] Handshake failed".
_CORE = re.compile(r"([IWEF])\d{4} [\d:.]+ +\d+ ([\w./-]+:\d+)\] (.*)")
_LEVELS = {"I": logging.INFO, "W": logging.WARNING, "E": logging.ERROR, "F": logging.CRITICAL}
REQUEST_ID: ContextVar[str | None] = ContextVar("request_id", default=None)
"""The random id of the call in progress, which links its log lines."""


def configure(level: str = "info", form: str = "auto", stream: TextIO | None = None) -> bool:
    """Write the process's log messages to a stream, one per line; return whether in JSON.

    Args:
        level: the least severe level shown for geoveil; libraries' messages are shown from WARNING.
        form: "json", "human", or "auto": human if the stream is a terminal.
        stream: by default standard output.

    Raises:
        ParameterError: if the level or form is unknown.
    """
    validation.choice("log_level", level, LOG_LEVELS)
    validation.choice("log_format", form, LOG_FORMATS)
    target: TextIO = sys.stdout if stream is None else stream
    human = form == "human" or (form == "auto" and target.isatty())
    renderer: Processor = (
        structlog.dev.ConsoleRenderer(colors=target.isatty())
        if human
        else structlog.processors.JSONRenderer(sort_keys=True)
    )
    shared: list[Processor] = [
        _with_fields,
        _with_request_id,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _without_messages,
    ]
    handler = logging.StreamHandler(target)
    handler.addFilter(Sparing())
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
        )
    )
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger(_OURS).setLevel(level.upper())
    return not human


def log_what_nobody_catches() -> None:
    """Log Python's warnings, and errors of threads and finalisers, instead of printing them."""
    logging.captureWarnings(True)
    threading.excepthook = _thread_failed
    sys.unraisablehook = _not_raised


def failed(error: Exception) -> None:
    """Log why the process ends: our own errors with their text, others only with their place."""
    if isinstance(error, GeoVeilError):
        _LOG.critical("failed", extra={"reason": str(error)})
    else:
        _LOG.critical("failed", exc_info=error)


class Sparing(logging.Filter):
    """Suppresses warnings and errors that one place in the code repeats often.

    The next message shown has their number in `left_out`. Critical messages always appear.

    Example:
        >>> import logging
        >>> sparing, record = Sparing(lambda: 0.0), logging.makeLogRecord({"levelno": 30})
        >>> sum(sparing.filter(record) for _ in range(1000))
        20
    """

    def __init__(self, clock: Monotonic = time.monotonic) -> None:
        super().__init__()
        self._buckets = TokenBuckets(_OF_ONE_PLACE, clock)
        self._left_out: Counter[bytes] = Counter()
        self._lock = threading.Lock()

    def filter(self, record: logging.LogRecord) -> bool:
        if not logging.WARNING <= record.levelno < logging.CRITICAL:
            return True
        place = f"{record.name} {record.pathname} {record.lineno}".encode()
        with self._lock:
            if self._buckets.take(place, 1):
                self._left_out[place] += 1
                return False
            left_out = self._left_out.pop(place, 0)
        if left_out:
            vars(record)["left_out"] = left_out
        return True


def _with_fields(logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
    """Add the named fields of our events; leave libraries' lines unchanged."""
    record: logging.LogRecord = event["_record"]
    if record.name.partition(".")[0] == _OURS:
        return _OUR_FIELDS(logger, method, event)
    left_out = {name: count for name, count in vars(record).items() if name == "left_out"}
    message = without_addresses(str(event["event"]))
    return {**event, **left_out, "event": LIBRARY, "message": message}


def _with_request_id(logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
    request_id = REQUEST_ID.get()
    return event if request_id is None else {**event, "request_id": request_id}


def _without_messages(logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
    """Show an exception's origin without its message, which may quote a report."""
    info = event.pop("exc_info", None)
    error = info[1] if isinstance(info, tuple) else info
    if isinstance(error, BaseException):
        event["exception"] = traceback_without_values(error)
    return event


def handle_loop_errors(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log an asyncio error without the repr of tasks and exceptions."""
    error = context.get("exception")
    _LOG.error(
        "loop_error",
        extra={"reason": context.get("message", "")},
        exc_info=error if isinstance(error, BaseException) else None,
    )


def without_addresses(text: str) -> str:
    """Return a library's message without addresses, which may be a caller's.

    Example:
        >>> without_addresses("Handshake with ipv4:192.0.2.7:4711 failed: peer [2001:db8::1]:80")
        'Handshake with (address) failed: peer (address)'
    """
    return _ADDRESS.sub("(address)", text)


def _thread_failed(arguments: Any) -> None:
    """Log the error that ended a thread, instead of `threading.excepthook`."""
    if arguments.exc_type is not SystemExit:
        _LOG.error("thread_failed", exc_info=arguments.exc_value)


def _not_raised(arguments: Any) -> None:
    """Log an unraisable error, instead of `sys.unraisablehook`."""
    _LOG.error("not_raised", exc_info=arguments.exc_value)


@contextmanager
def native_lines_logged() -> Iterator[None]:
    """Log each line that native code, mainly gRPC's core, writes to standard error.

    Writers never block: beyond a backlog of a megabyte, lines are lost.
    """
    sys.stderr.flush()
    before = os.dup(_STDERR)
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
    os.set_blocking(writing, False)
    os.dup2(writing, _STDERR)
    os.close(writing)
    thread = threading.Thread(target=_log_native_lines, args=(reading,), name="native", daemon=True)
    thread.start()
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(before, _STDERR)  # closes the pipe's last writing end
        os.close(before)
        thread.join(1.0)


def _log_native_lines(descriptor: int) -> None:
    with os.fdopen(descriptor, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            if line.strip():
                _log_native(line.rstrip())


def _log_native(line: str) -> None:
    core = _CORE.match(line)
    if core:
        level, where, text = core.groups()
        logging.getLogger(f"native.{where}").log(_LEVELS[level], "%s", text)
    else:
        logging.getLogger("native").warning("%s", line)
