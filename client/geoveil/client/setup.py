"""What both shells share: how a client is put together, and its defaults."""

import logging
import os
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache, partial

from geoveil.client.device_session import DeviceSession
from geoveil.client.errors import ClientError, ParameterError
from geoveil.client.journal import Bounds, Journal
from geoveil.client.policy import Policy
from geoveil.client.report_builder import ReportBuilder
from geoveil.client.report_sender import ReportSender
from geoveil.client.retry import Timing
from geoveil.gp import RandomSource

_LOG = logging.getLogger(__name__)
MOST_PENDING = 1_000
MOST_PENDING_BYTES = 4 << 20
CLOSE_TIMEOUT_S = 2.0
RELEASE_FLOOR_S = 0.002
"""Each half is more than four times what any single answer takes, Student-t noise included."""
FORK_GRACE_S = 0.5
"""That requests under way at a fork have to end by themselves."""
QUIET_S = 0.1
"""Without a call of the app, before the background loads gRPC, which holds up other threads."""
MOST_UNQUIET = 100
"""Times that an app is found busy so; then it loads it none the less."""
FAILED_WAIT_S = 30.0
"""Until the background looks again after something failed that is not the network."""


def assemble(
    *,
    policy: Policy,
    state_dir: str | os.PathLike[str] | None,
    timeout_s: float,
    most_pending: int,
    most_pending_bytes: int,
    source: RandomSource | None,
    floor_s: float,
    timing: Timing,
) -> tuple[DeviceSession, ReportSender]:
    """Return the two parts of a client: what it does on the device, and over the network."""
    if state_dir is None:
        _say_that_all_is_forgotten()
    builder = ReportBuilder(policy=policy, source=source)
    session = DeviceSession(
        builder=builder,
        bounds=Bounds(
            most_reports=_count("most_pending", most_pending),
            most_bytes=_count("most_pending_bytes", most_pending_bytes),
        ),
        floor_s=floor_s,
        timing=replace(timing, now=partial(_date, timing.now)),
        journal=Journal(state_dir),
    )
    return session, ReportSender(session, timeout_s)


def described(error: Exception) -> str:
    """Return what may be logged of an error: of a foreign one, only its kind."""
    return str(error) if isinstance(error, ClientError) else type(error).__name__


@cache
def _say_that_all_is_forgotten() -> None:
    """Warn, once in a process."""
    _LOG.warning(
        "a client without a state_dir forgets with its process what was answered and spent: its"
        " limits last no longer, and the next process draws anew"
    )


def _date(now: Callable[[], datetime]) -> datetime:
    """Return the date by a clock, in UTC, and within the calendar there as well."""
    date = now()
    if not isinstance(date, datetime) or date.utcoffset() is None:
        raise ParameterError("timing.now", type(date).__name__, "a date with a time zone")
    try:
        return date.astimezone(UTC)
    except OverflowError:
        end = datetime.min if date.year == datetime.min.year else datetime.max
        return end.replace(tzinfo=UTC)


def _count(name: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ParameterError(name, value, "an integer >= 1")
    return value
