"""Logs: JSON for machines, lines for people; no message of a foreign exception in either.

Every module logs with `logging`; this decides how that looks. What is logged is what happened and
where: never a value, a report, the id of one, or the address of a caller.
"""

import asyncio
import logging
import sys
from contextvars import ContextVar
from typing import Any, TextIO

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from geoveil.aggregator.config import LOG_FORMATS, LOG_LEVELS
from geoveil.aggregator.diagnostics import traceback_without_values
from geoveil.gp.validation import choice

_OURS = "geoveil"
REQUEST_ID: ContextVar[str | None] = ContextVar("request_id", default=None)
"""Random, of the call in progress: it joins the lines that belong together."""
CALLER: ContextVar[str | None] = ContextVar("caller", default=None)
"""Name of the token of the call in progress."""


def configure(level: str = "info", form: str = "auto", stream: TextIO | None = None) -> None:
    """Send the messages of this process to a stream, one line each in JSON.

    Args:
        level: least severe ones of geoveil that are shown; those of libraries are, from WARNING on.
        form: "json", "human", or "auto": human if the stream is a terminal.
        stream: by default standard output.

    Raises:
        ParameterError: if the level or the form is none of those.
    """
    choice("log_level", level, LOG_LEVELS)
    choice("log_format", form, LOG_FORMATS)
    target: TextIO = sys.stdout if stream is None else stream
    human = form == "human" or (form == "auto" and target.isatty())
    renderer: Processor = (
        structlog.dev.ConsoleRenderer(colors=target.isatty())
        if human
        else structlog.processors.JSONRenderer(sort_keys=True)
    )
    shared: list[Processor] = [
        _with_request_id,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _without_messages,
    ]
    handler = logging.StreamHandler(target)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
        )
    )
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger(_OURS).setLevel(level.upper())


def _with_request_id(logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
    request_id = REQUEST_ID.get()
    return event if request_id is None else {**event, "request_id": request_id}


def _without_messages(logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
    """Show where an exception came from, not what it says: that may quote a report."""
    info = event.pop("exc_info", None)
    error = info[1] if isinstance(info, tuple) else info
    if isinstance(error, BaseException):
        event["exception"] = traceback_without_values(error)
    return event


def handle_loop_errors(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log what asyncio has to complain of, without the repr of tasks and exceptions.

    See `asyncio.loop.set_exception_handler`.
    """
    error = context.get("exception")
    logging.getLogger(__name__).error(
        "%s",
        context.get("message", "an error of the event loop"),
        exc_info=error if isinstance(error, BaseException) else None,
    )
