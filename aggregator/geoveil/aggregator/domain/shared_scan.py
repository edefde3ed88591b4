"""Requests that share a pass over a campaign's points, so that each block is read only once.

One pass per campaign runs at a time. Requests that arrive meanwhile share the next pass, or join
the current one while its sums are laid out. Equal requests share one answer.
"""

import asyncio
import math
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from geoveil.aggregator.domain.estimates import QueryEstimate
from geoveil.aggregator.domain.layout import Layout
from geoveil.aggregator.domain.rows import Points, points_of, read_blocks
from geoveil.aggregator.domain.threads import ConcurrencyLimit, Reader, settle
from geoveil.aggregator.domain.values import MOST_SECONDS, PointSums
from geoveil.campaign import PointQuestion, encode_point_question
from geoveil.gp import GRID_EXPONENT, Accumulator, GeoVeilError, estimate

MOST_TOGETHER = 4
"""The most requests per pass, each of which has separate sums."""
_AT_ONCE = 2
"""The most requests computed at once."""


class PointAnswers(NamedTuple):
    """Estimates of queries from points."""

    estimates: list[QueryEstimate]
    """Ordered by query, then by period."""
    covariances: dict[int, NDArray[np.float64]]
    """Period → the covariance of its estimates, shape (m, m), if requested."""


class AnswerCache:
    """The latest answers, which are valid until a new report comes.

    It keeps at most `most` numbers and drops the least recently used answers first.

    Example:
        >>> cache = AnswerCache(most=4)
        >>> answers = PointAnswers([], {0: np.zeros((1, 1))})
        >>> for digest in b"abc":
        ...     cache.put(bytes([digest]), answers)
        >>> [cache.get(bytes([digest])) is answers for digest in b"abc"]
        [False, True, True]
    """

    def __init__(self, most: int = 1 << 21) -> None:
        self._most = most
        self._kept: OrderedDict[bytes, PointAnswers] = OrderedDict()

    @staticmethod
    def key(
        campaign_id: str,
        questions: Sequence[PointQuestion],
        periods: Mapping[int, int],
        *rest: object,
    ) -> bytes:
        """Return a 32-byte key from questions, periods with numbers of points, and the rest."""
        digest = sha256(repr((campaign_id, list(periods.items()), rest)).encode())
        for question in questions:
            content = encode_point_question(question).SerializeToString(deterministic=True)
            digest.update(len(content).to_bytes(8))
            digest.update(content)
        return digest.digest()

    def get(self, key: bytes) -> PointAnswers | None:
        """Return a request's answers; None if they are not cached."""
        if key in self._kept:
            self._kept.move_to_end(key)
        return self._kept.get(key)

    def put(self, key: bytes, answers: PointAnswers) -> None:
        """Keep answers."""
        self._kept[key] = answers
        while sum(map(_size, self._kept.values())) > self._most:
            self._kept.popitem(last=False)


def _size(answers: PointAnswers) -> int:
    """Return the approximate count of numbers, plus one for the container."""
    return 1 + 16 * len(answers.estimates) + sum(c.size for c in answers.covariances.values())


@dataclass(eq=False)
class _Request:
    """A request about a campaign's points, and its waiting callers."""

    key: bytes
    lay_out: Callable[[], PointSums]
    periods: Mapping[int, int]
    confidence: float
    looked_from: float
    cohort: int | None
    waiting: list["asyncio.Future[PointAnswers]"] = field(default_factory=list)
    sums: PointSums | None = None

    @property
    def wanted(self) -> bool:
        """Whether anybody waits."""
        return any(not future.done() for future in self.waiting)

    def end(self, found: PointAnswers | BaseException) -> None:
        """Deliver the result, or the error."""
        settle((future, found) for future in self.waiting)


@dataclass(eq=False)
class _Queue:
    """The requests for one campaign."""

    waiting: list[_Request] = field(default_factory=list)
    running: list[_Request] = field(default_factory=list)
    task: "asyncio.Task[None] | None" = None


class SharedScan:
    """Answers requests about campaigns' points; those about one campaign share passes.

    It caches the latest answers until reports come. `limit` bounds simultaneous passes over
    different campaigns.
    """

    def __init__(self, reader: Reader, limit: ConcurrencyLimit) -> None:
        self._reader = reader
        self._limit = limit
        self._queues: dict[str, _Queue] = {}
        self._answers = AnswerCache()

    async def answer(
        self,
        key: bytes,
        layout: Layout,
        questions: Sequence[PointQuestion],
        periods: Mapping[int, int],
        confidence: float,
        *,
        joint: bool = False,
        cohort: int | None = None,
        looked_from: float = math.inf,
    ) -> PointAnswers:
        """Return the answers of the stored points, computed off the event loop; see `PointSums`.

        A request that all callers have abandoned ends. `AnswerCache.key` makes the key; `periods`
        maps the requested periods to their approximate numbers of points.
        """
        if (kept := self._answers.get(key)) is not None:
            return kept
        estimate(Accumulator(), GRID_EXPONENT, confidence)  # refuses bad arguments before reading
        name = layout.campaign.campaign_id
        queue = self._queues.setdefault(name, _Queue())
        same = (r for r in [*queue.running, *queue.waiting] if r.key == key and r.wanted)
        request = next(same, None)
        if request is None:
            expected = sum(periods.values()), len(periods)
            lay_out = partial(PointSums, layout.campaign, questions, expected, joint=joint)
            request = _Request(key, lay_out, periods, confidence, looked_from, cohort)
            queue.waiting.append(request)
        future: asyncio.Future[PointAnswers] = asyncio.get_running_loop().create_future()
        request.waiting.append(future)
        if queue.task is None:
            queue.task = asyncio.create_task(self._work(name, queue, layout))
        return await future

    async def _work(self, name: str, queue: _Queue, layout: Layout) -> None:
        """Make passes until no caller waits."""
        try:
            while queue.waiting:
                async with self._limit:
                    await self._pass(queue, layout)
        except BaseException as error:
            for request in [*queue.running, *queue.waiting]:
                request.end(error)
            if not isinstance(error, Exception):
                raise
        finally:
            del self._queues[name]

    async def _pass(self, queue: _Queue, layout: Layout) -> None:
        joined, seconds = queue.running, 0.0
        joined.clear()
        while queue.waiting and len(joined) < MOST_TOGETHER:
            request = queue.waiting[0]
            if not (request.wanted and await _laid_out(request)):
                queue.waiting.remove(request)
                continue
            assert request.sums is not None  # it was laid out
            if joined and seconds + request.sums.seconds > MOST_SECONDS:
                break
            seconds += request.sums.seconds
            joined.append(queue.waiting.pop(0))
        if not joined:
            return
        adding = ConcurrencyLimit(_AT_ONCE)
        async for packed in read_blocks(self._reader, layout.campaign):
            joined[:] = [request for request in joined if request.wanted]
            if not joined:
                return
            points = await asyncio.to_thread(points_of, layout, packed)
            await asyncio.gather(*(_add(request, points, adding) for request in joined))
        for request in joined:
            if request.wanted:
                answers = await asyncio.to_thread(_found, request)
                self._answers.put(request.key, answers)
                request.end(answers)
        joined.clear()


async def _laid_out(request: _Request) -> bool:
    """Lay out the sums of a request; return whether it continues."""
    try:
        request.sums = request.sums or await asyncio.to_thread(request.lay_out)
    except GeoVeilError as error:
        request.end(error)
    return request.wanted


async def _add(request: _Request, points: Points, limit: ConcurrencyLimit) -> None:
    """Add points to the sums of a request, which ends if they are refused."""
    assert request.sums is not None  # it was laid out
    try:
        async with limit:
            kept = await asyncio.to_thread(_of_request, request, points)
            for part in request.sums.parts():
                if request.wanted:
                    await asyncio.to_thread(request.sums.add, kept, part)
    except GeoVeilError as error:
        request.end(error)


def _of_request(request: _Request, points: Points) -> Points:
    """Return the points of the requested periods and cohort."""
    shown = np.array(list(request.periods), np.uint32)
    kept = points.periods == shown[0] if len(shown) == 1 else np.isin(points.periods, shown)
    if request.cohort is not None and points.cohorts is not None:
        kept &= points.cohorts == request.cohort
    return points if kept.all() else Points(points.periods[kept], points.values[kept])


def _found(request: _Request) -> PointAnswers:
    assert request.sums is not None  # it was laid out
    estimates = request.sums.estimates(request.periods, request.confidence, request.looked_from)
    return PointAnswers(estimates, request.sums.covariances(request.periods))
