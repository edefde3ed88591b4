"""Processes beside the server, so that plans and statistics do not use its time or memory.

A worker reads requests as lines of JSON and writes its answers likewise. A user who moves a slider
sends many requests, of which only the last matters: a new request replaces the same user's waiting
one. A request under way runs to its end, since it takes only a second or two, and its result is
discarded. A process that takes too long is killed and replaced.
"""

import json
import os
import resource
import subprocess
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import IO, Any, TypeAlias

from geoveil.console.http import RefusedError

Message = dict[str, Any]

LONGEST_S = 60.0
"""Seconds for one answer; after that the process is killed."""
_TOO_LONG = "this took too long and was stopped"
_MOST_WAITING = 32
Answering = Callable[[Message], Message]
"""Answers the process's calls during its work."""


def refused(name: str, expected: str, nearest: Mapping[str, float] | None = None) -> Message:
    """Return the answer that refuses a form.

    Args:
        name: the invalid field; empty if no single field is at fault.
        expected: the permitted values, or the whole reason.
        nearest: field → a number that would be feasible.

    Example:
        >>> refused("epsilon", "above 0")
        {'refused': {'name': 'epsilon', 'expected': 'above 0', 'nearest': {}}}
    """
    return {"refused": {"name": name, "expected": expected, "nearest": dict(nearest or {})}}


class SupersededError(RefusedError):
    """A newer request of the same person replaced this one."""

    def __init__(self) -> None:
        super().__init__(409, "another request came after this one")


@dataclass(slots=True)
class _Waiting:
    message: Message
    answering: Answering | None
    answer: "Future[Message]" = field(default_factory=Future)


class _Lane:
    """The messages that wait for one thread of the process, at most one per owner."""

    def __init__(self, send: Callable[[Message, Answering | None], Message]) -> None:
        self._send = send
        self._lock = threading.Lock()
        self._waiting: OrderedDict[str, _Waiting] = OrderedDict()
        self._busy = False

    def ask(self, owner: str, message: Message, answering: Answering | None) -> Message:
        waiting = _Waiting(message, answering)
        with self._lock:
            older = self._waiting.pop(owner, None)
            if len(self._waiting) >= _MOST_WAITING:
                raise RefusedError(503, "too many requests wait already: try again in a moment")
            self._waiting[owner] = waiting
            begins = not self._busy
            self._busy = True
        if older is not None:
            older.answer.set_exception(SupersededError())
        if begins:
            threading.Thread(target=self._work, name="console-process", daemon=True).start()
        try:
            return waiting.answer.result(3 * LONGEST_S)
        except TimeoutError:
            raise RefusedError(503, _TOO_LONG) from None

    def _work(self) -> None:
        """Answer all waiting messages."""
        while True:
            with self._lock:
                if not self._waiting:
                    self._busy = False
                    return
                _, waiting = self._waiting.popitem(last=False)
            try:
                waiting.answer.set_result(self._send(waiting.message, waiting.answering))
            except Exception as error:  # noqa: BLE001 - it is raised where the answer is awaited
                waiting.answer.set_exception(error)


class ChildProcess:
    """A worker process, started at the first request and restarted after its end.

    Different lanes work in parallel, so that a slider's forecast does not wait for a plan.

    Args:
        module: the Python module that the process runs.
    """

    def __init__(self, module: str) -> None:
        self._module = module
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._answers: dict[int, SimpleQueue[Message | None]] = {}
        """The answers of the process; None after its end."""
        self._number = 0
        self._closed = False
        self._lanes: dict[str, _Lane] = {}

    def ask(
        self, owner: str, message: Message, lane: str = "", answering: Answering | None = None
    ) -> Message:
        """Return the answer to a message; blocks its thread.

        Args:
            owner: the sender; a new message replaces the owner's waiting message in this lane.
            message: the request.
            lane: one of a few names; each lane answers its messages in sequence.
            answering: answers the process's calls meanwhile.

        Raises:
            SupersededError: if a newer message of the owner replaced this one.
            RefusedError: if too many messages wait, or the answer takes too long.
        """
        with self._lock:
            queue = self._lanes.setdefault(lane, _Lane(self._send))
        return queue.ask(owner, {"lane": lane, **message}, answering)

    def begin(self) -> None:
        """Start the process if necessary, so that the first answer comes sooner."""
        with self._lock:
            self._running()

    def close(self) -> None:
        """End the process; refuse messages under way."""
        with self._lock:
            self._closed = True
            self._end()

    def _send(self, message: Message, answering: Answering | None) -> Message:
        said = SimpleQueue[Message | None]()
        with self._lock:
            self._running()
            self._number += 1
            number = self._number
            self._answers[number] = said
            self._write({"number": number, **message})
        ends = time.monotonic() + LONGEST_S
        while True:
            try:
                message_read = said.get(timeout=max(ends - time.monotonic(), 0.0))
            except Empty:
                with self._lock:
                    self._end()
                raise RefusedError(503, _TOO_LONG) from None
            if message_read is None:
                raise RefusedError(503, "this request was interrupted: try again")
            if "call" not in message_read:
                return message_read
            assert answering is not None  # only such messages make the process call back
            reply = answering(message_read["call"])
            with self._lock:
                if self._answers.get(number) is said:
                    self._write({"number": number, "reply": reply})

    def _write(self, message: Message) -> None:
        assert self._process is not None  # it runs
        with suppress(OSError):  # it has ended: its reader says so
            write(self._process.stdin, message)

    def _running(self) -> "subprocess.Popen[bytes]":
        if self._closed:
            raise RefusedError(503, "the server is stopping")
        if self._process is None or self._process.poll() is not None:
            self._end()
            self._process = subprocess.Popen(  # noqa: S603 - this very Python, this very module
                [sys.executable, "-m", self._module],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
            )
            reading = threading.Thread(
                target=self._read, args=(self._process,), name="console-process-read", daemon=True
            )
            reading.start()
        return self._process

    def _read(self, process: "subprocess.Popen[bytes]") -> None:
        assert process.stdout is not None  # a pipe
        with process.stdout as stream:
            for line in stream:
                message = json.loads(line)
                number = message.pop("number")
                with self._lock:
                    kept = self._answers
                    answer = kept.get(number) if "call" in message else kept.pop(number, None)
                if answer is not None:
                    answer.put(message)
        process.wait()
        with self._lock:
            if process is self._process:
                self._end()

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            with suppress(OSError):
                if process.stdin is not None:
                    process.stdin.close()
        answers, self._answers = self._answers, {}
        for answer in answers.values():
            answer.put(None)


def write(stream: IO[bytes] | None, message: Message) -> None:
    """Write a message as a line."""
    assert stream is not None  # a pipe
    stream.write(json.dumps(message).encode() + b"\n")
    stream.flush()


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
