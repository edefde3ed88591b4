"""Runs a gateway as a separate process, and restarts it when it dies."""

import asyncio
import logging
import os
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

from geoveil.gp import ParameterError

_LOG = logging.getLogger(__name__)
_BACKLOG = 1024
_NICE = 10
"""A lower priority than the counting process's."""
_MEMORY = 512 << 20
"""Resident bytes beyond which it is killed and restarted."""
_LOOK_S = 0.5
_PAUSES_S = (0.2, 1.0, 5.0, 30.0)
"""Seconds before the first restart, the second, ..."""
_LASTED_S = 60.0
"""After a process that ran this many seconds, the pauses start again with the first."""
_GRACE_S = 8.0


def listening(host: str, port: int) -> socket.socket:
    """Return a listening socket for a process that is started later.

    Raises:
        ParameterError: if the address is taken.
    """
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        expected = f"free, and one of this machine ({error.strerror})"
        raise ParameterError("web", f"{host}:{port}", expected) from error


class Supervisor:
    """Keeps a process running that serves a socket, whose number is "{fd}" in its command.

    The socket stays open while no process runs, so that callers wait instead of being refused.
    """

    def __init__(self, command: Sequence[str], taken: socket.socket) -> None:
        self._command = [part.format(fd=taken.fileno()) for part in command]
        self._taken = taken
        self._running: asyncio.Task[None] | None = None
        self.process: asyncio.subprocess.Process | None = None
        """The running process."""

    async def __aenter__(self) -> Self:
        self._running = asyncio.create_task(self._run(), name="supervise the gateway")
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)
        self._taken.close()

    async def _run(self) -> None:
        loop, often = asyncio.get_running_loop(), 0
        while True:
            began = loop.time()
            process = self.process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=asyncio.subprocess.PIPE,  # its end tells the process that this one has ended
                pass_fds=[self._taken.fileno()],
            )
            with suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, process.pid, _NICE)
            watching = asyncio.create_task(self._watch(process), name="watch the gateway")
            try:
                status = await process.wait()
            except asyncio.CancelledError:
                await _end(process)
                raise
            finally:
                watching.cancel()
            often = 0 if loop.time() - began > _LASTED_S else often
            _LOG.error("gateway_ended", extra={"status": status})
            await asyncio.sleep(_PAUSES_S[min(often, len(_PAUSES_S) - 1)])
            often += 1

    async def _watch(self, process: asyncio.subprocess.Process) -> None:
        """Kill a process that uses too much memory."""
        while True:
            await asyncio.sleep(_LOOK_S)
            if (held := resident(process.pid)) > _MEMORY:
                _LOG.error("gateway_too_large", extra={"bytes": held})
                process.kill()
                return


def resident(pid: int) -> int:
    """Return a process's resident bytes; 0 if unknown."""
    with suppress(OSError, ValueError, IndexError):
        pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")
    return 0


async def _end(process: asyncio.subprocess.Process) -> None:
    with suppress(ProcessLookupError):
        process.terminate()
    try:
        async with asyncio.timeout(_GRACE_S):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()


def command_of(*arguments: str) -> list[str]:
    """Return the command that runs this Python's gateway."""
    code = "from geoveil.cli import main; main()"
    return [sys.executable, "-c", code, "web", "--fd", "{fd}", *arguments]
