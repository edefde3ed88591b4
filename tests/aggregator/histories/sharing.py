"""Shared objects of thousands of replicas in one process, which make histories cheap.

Nothing of this is of one database: how SQLAlchemy writes statements, campaigns as they are read,
and the thread that reads and computes, which is that of the event loop.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any
from unittest.mock import patch

from sqlalchemy import create_engine

from geoveil.aggregator import Code, ServiceError, Store
from geoveil.aggregator.domain import campaign_cache as library
from geoveil.aggregator.domain.campaign_cache import Publication
from geoveil.aggregator.domain.threads import Reader
from geoveil.aggregator.store import CampaignRecord, postgres, sqlite

_FIRST: dict[str, Any] = {}


@contextmanager
def sharing() -> Iterator[None]:
    """Let engines share their statements, and replicas the campaigns that they have read."""
    with (
        patch.object(sqlite, "create_engine", _engine),
        patch.object(postgres, "create_engine", _engine),
        patch.object(library, "Publication", _publication),
        patch.object(asyncio, "to_thread", _in_this_thread),
    ):
        yield


class InlineReader(Reader):
    """Reads between two turns of the event loop."""

    async def start(self) -> None:
        self._store = self._open_store()

    async def call(self, function: Callable[[Store], Any]) -> Any:
        await asyncio.sleep(0)
        if self._store is None:
            raise ServiceError(Code.STOPPING)
        return function(self._store)

    async def stop(self) -> None:
        store, self._store = self._store, None
        if store is not None:
            store.close()


async def _in_this_thread(function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    await asyncio.sleep(0)
    return function(*arguments, **named)


def _engine(url: Any, **arguments: Any) -> Any:
    kind = str(url).partition(":")[0]
    engine: Any = create_engine(url, _initialize=kind not in _FIRST, **arguments)
    first = _FIRST.setdefault(kind, engine)
    # Statements are kept by the dialect that wrote them.
    engine.dialect, engine._compiled_cache = first.dialect, first._compiled_cache
    return engine


def _publication(record: CampaignRecord) -> Publication:
    return _read(record.published, record.queries)


@cache
def _read(published: bytes, queries: int) -> Publication:
    return Publication(CampaignRecord(campaign_id="", published=published, queries=queries))
