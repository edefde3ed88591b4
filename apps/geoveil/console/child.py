"""A process beside the server, which answers lines of JSON on its standard input.

See `process` for the other end.
"""

import json
import os
import resource
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from typing import IO, Any, TypeAlias

from geoveil.console.process import Message, refused, write

_MEMORY = 6 << 30
"""Limit of its address space in bytes, against hostile files."""
Ask: TypeAlias = Callable[[Message], Any]
"""Asks the server something, and waits for its answer."""
Worker: TypeAlias = Callable[[Message, Ask], Message]
"""Returns the answer to a message."""


def serve(source: IO[bytes], sink: IO[bytes], make: Callable[[], Worker]) -> None:
    """Answer messages, each a line of JSON, until the input ends.

    Args:
        source: of messages with a "number", which their answers carry, and a "lane"; or with the
            "reply" to what was asked back.
        sink: of answers, and of what is asked back: a "call".
        make: makes the worker of a lane, which works on a thread of its own.
    """
    lanes: dict[str, tuple[ThreadPoolExecutor, Worker]] = {}
    replies: dict[int, SimpleQueue[Any]] = {}
    lock = threading.Lock()

    def say(message: Message) -> None:
        with lock:
            write(sink, message)

    def run(worker: Worker, message: Message) -> None:
        number = message["number"]

        def ask(call: Message) -> Any:
            say({"number": number, "call": call})
            return replies[number].get()

        try:
            answer = worker(message, ask)
        except Exception as error:  # noqa: BLE001 - a defect, told without what caused it
            answer = refused("", f"this failed ({type(error).__name__}): it is a defect")
        del replies[number]
        say({"number": number, **answer})

    for line in source:
        message = json.loads(line)
        number = message["number"]
        if "reply" in message:
            if number in replies:
                replies[number].put(message["reply"])
            continue
        if message["lane"] not in lanes:
            lanes[message["lane"]] = ThreadPoolExecutor(1), make()
        pool, worker = lanes[message["lane"]]
        replies[number] = SimpleQueue()
        pool.submit(run, worker, message)


def main(make: Callable[[], Worker]) -> None:
    """Serve standard input, with less right to processors and memory than a server."""
    os.nice(5)
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sink = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints is no answer
    serve(sys.stdin.buffer, sink, make)
    os._exit(0)  # nobody waits for what is under way
