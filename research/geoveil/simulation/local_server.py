"""Run an aggregator in a separate process, for experiments on one machine."""

import asyncio
import multiprocessing
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from geoveil.aggregator import Aggregator, Settings
from geoveil.gp import GeoVeilError
from geoveil.simulation.computing import unreached_by_ctrl_c

_START_S = 60.0


@contextmanager
def local_server(database: Path) -> Iterator[str]:
    """Run an aggregator on a free local port and yield its address.

    It stops gracefully after the block, or when this process dies. Raises GeoVeilError if it does
    not start.
    """
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(database, theirs), daemon=True)
    with unreached_by_ctrl_c():
        process.start()
    theirs.close()
    try:
        if not ours.poll(_START_S):
            raise GeoVeilError("the aggregator did not start within a minute")
        try:
            address = str(ours.recv())
        except EOFError:
            reason = "the aggregator stopped before it was ready; see its messages"
            raise GeoVeilError(reason) from None
        yield address
    except BaseException:
        process.kill()  # nobody waits for unfinished work
        raise
    finally:
        ours.close()
        process.join(_START_S)
        if process.is_alive():
            process.terminate()


def _serve(database: Path, pipe: "Connection[Any, Any]") -> None:
    async def run() -> None:
        async with Aggregator(Settings(host="127.0.0.1", port=0, database=database)) as aggregator:
            with suppress(EOFError, OSError):  # the parent ended, or asks this process to end
                pipe.send(aggregator.address)
                await asyncio.to_thread(pipe.recv)

    asyncio.run(run())
