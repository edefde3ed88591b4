"""The process that plans: answers lines of JSON on its standard input, see `process`."""

import json
import os
import resource
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import IO

from geoveil.console.planning.answers import Planner
from geoveil.console.planning.process import FORECAST, Message, refused, write

_MEMORY = 6 << 30
"""Bytes of addresses: what a hostile file could make it ask for."""


def serve(source: IO[bytes], sink: IO[bytes]) -> None:
    """Answer messages, a line of JSON each, until there are no more.

    Args:
        source: of messages with a "number", which their answers carry.
        sink: of answers.
    """
    # Two planners, since a session is for one thread.
    threads = {quick: (ThreadPoolExecutor(1), Planner()) for quick in (True, False)}
    lock = threading.Lock()

    def run(planner: Planner, message: Message) -> None:
        try:
            answer = planner.answer(message)
        except Exception as error:  # noqa: BLE001 - a defect, told without what caused it
            said = f"planning failed ({type(error).__name__}): this is a defect"
            answer = refused("", said)
        with lock:
            write(sink, {"number": message["number"], **answer})

    for line in source:
        message = json.loads(line)
        pool, planner = threads[message["task"] == FORECAST]
        pool.submit(run, planner, message)


def main() -> None:
    """Serve standard input, with less right to processors and memory than a server."""
    os.nice(5)
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sink = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints is no answer
    serve(sys.stdin.buffer, sink)
    os._exit(0)  # nobody waits for what is under way


if __name__ == "__main__":
    main()
