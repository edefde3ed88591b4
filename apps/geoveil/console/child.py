"""A worker process, which reads requests as lines of JSON and writes its answers likewise.

`process` is the parent's end.
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
"""The limit of the address space in bytes, against hostile files."""
Ask: TypeAlias = Callable[[Message], Any]
"""Sends the server a call, and waits for its answer."""
Worker: TypeAlias = Callable[[Message, Ask], Message]
"""Returns the answer to a message."""


def serve(source: IO[bytes], sink: IO[bytes], make: Callable[[], Worker]) -> None:
    """Answer messages, one JSON object per line, until the input ends.

    Args:
        source: the messages: requests, each with a "number" that its answer repeats and a "lane",
            and each "reply" to a "call".
        sink: receives answers and calls.
        make: makes the worker of a lane; each lane has a thread of its own.
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
        except Exception as error:  # noqa: BLE001 - a defect, reported without its cause
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
    """Serve standard input, with a lower priority and less memory than the server."""
    os.nice(5)
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sink = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # a library's output is not an answer
    serve(sys.stdin.buffer, sink, make)
    os._exit(0)  # nobody waits for unfinished work
