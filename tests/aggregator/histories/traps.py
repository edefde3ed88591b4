"""Traps: faults of one store at a chosen statement to the database."""

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any, cast
from weakref import WeakKeyDictionary

from sqlalchemy import Engine, event

from geoveil.aggregator import SQLiteStore, Store

_TRAPS: WeakKeyDictionary[Engine, "Trap"] = WeakKeyDictionary()

Strike = Callable[[Any], None]
"""Given SQLAlchemy's connection or SQLite's, or None right after a commit; may raise."""


class Death(SystemExit):
    """Ends the thread of a replica that dies, as SIGKILL ends its process: nothing else is run."""


class Trap:
    """Springs once, some steps after it was armed.

    A step is a statement that is about to be sent, COMMIT included, or the moment after COMMIT.
    """

    def __init__(self) -> None:
        self._left = 0
        self._strike: Strike | None = None

    @property
    def armed(self) -> bool:
        """Whether it has not sprung yet."""
        return self._strike is not None

    def arm(self, steps: int, strike: Strike) -> None:
        """Call `strike` at a step to come, the first of which is 1."""
        self._left = steps
        self._strike = strike

    def step(self, connection: Any = None) -> None:
        """Count, and spring if it is time."""
        if self._strike is None:
            return
        self._left -= 1
        if self._left <= 0:
            strike, self._strike = self._strike, None
            strike(connection)


def _step(connection: Any, *_: Any) -> None:
    trap = _TRAPS.get(connection.engine)
    if trap is not None:
        trap.step(connection)


class _Watched(sqlite3.Connection):
    """Lets a trap see the statements that a store sends past SQLAlchemy."""

    trap: Trap | None = None

    def execute(self, *arguments: Any) -> sqlite3.Cursor:
        if self.trap is not None:
            self.trap.step(self)
        return super().execute(*arguments)


def _watch(dialect: Any, _record: object, _arguments: object, options: dict[str, Any]) -> None:
    if dialect.name == "sqlite":
        options["factory"] = _Watched


@contextmanager
def watching_statements() -> Iterator[None]:
    """Let traps see all statements; deaths make no noise."""
    previous = threading.excepthook

    def hook(args: Any) -> None:
        if args.exc_type is not Death:
            previous(args)

    events = ("before_cursor_execute", "commit")
    for name in events:
        event.listen(Engine, name, _step)
    event.listen(Engine, "do_connect", _watch)
    threading.excepthook = hook
    try:
        yield
    finally:
        threading.excepthook = previous
        for name in events:
            event.remove(Engine, name, _step)
        event.remove(Engine, "do_connect", _watch)


def trapped(store: Any, trap: Trap) -> Store:
    """Return the store with the trap in its way.

    It too is a step when a method that writes returns: all is durable, and nobody knows it yet.
    """
    _TRAPS[store._engine] = trap
    if isinstance(store, SQLiteStore):
        with closing(store._engine.raw_connection()) as connection:
            cast("_Watched", connection.driver_connection).trap = trap

    def then_step(method: Callable[..., Any]) -> Callable[..., Any]:
        def stepping(*arguments: Any) -> Any:
            result = method(*arguments)
            trap.step()
            return result

        return stepping

    for name in ("commit", "create_campaign", "close_campaign"):
        setattr(store, name, then_step(getattr(store, name)))
    return cast("Store", store)
