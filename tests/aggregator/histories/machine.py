"""Play a history in a world, and let the model judge every answer."""

import asyncio
from collections.abc import Coroutine, Sequence
from contextlib import aclosing, suppress
from functools import singledispatchmethod
from typing import Any

from geoveil.proto.v1 import analyst_pb2, collector_pb2

from .campaigns import CLOSES, OPENS, POINTS, kernel_value, require, sums_of_rows
from .model import UNKNOWN, Exchange, Model, periods_begun
from .operations import (
    START,
    Browse,
    Clock,
    Close,
    Create,
    Cut,
    DiskFull,
    Estimate,
    Export,
    Fate,
    Fetch,
    Kill,
    Operation,
    Question,
    Release,
    Replay,
    Request,
    Restart,
    RestartDatabase,
    Stream,
    Together,
    Upload,
    Watch,
)
from .speaking import (
    METHODS,
    Sent,
    asking,
    content_of,
    listed,
    read,
    read_rows,
    read_sums,
    sent,
    uploads_of,
    watching,
)
from .world import Lost, Refused, Unreachable, Watching, World

_FAR = CLOSES + (CLOSES - OPENS)
_NEVER_SENT = (Fate.REQUEST_LOST, Fate.HELD)
_NEVER_HEARD = (Fate.RESPONSE_LOST, Fate.CALLER_GONE)
_TICKS = 12
"""Turns of the event loop that a caller waits before it gives up."""


class Machine:
    """Plays one history.

    Args:
        world: healthy, with an empty database or a tag of its own.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self.model = Model()
        self.sent: list[Sent] = []
        self.held: list[Sent] = []

    async def play(self, history: Sequence[Operation]) -> None:
        """Do everything, then heal, send everything again, and see that all is counted once.

        Raises:
            Violation: if a promise was broken.
        """
        for operation in history:
            await self._do(operation)
        await self._end()

    async def _end(self) -> None:
        world = self.world
        await world.heal()
        self.model.nothing_lingers()
        uploads = [s for s in self.sent if isinstance(s.request, Upload | Stream)]
        world.set_clock(OPENS + START)
        for s in uploads:
            await self._send([(s, 0, Fate.DELIVERED)])
        world.set_clock(_FAR)
        for name in sorted({s.request.campaign for s in self.sent}):
            for replica in range(world.replicas):
                await self._do(Estimate(name, replica))
            await self._do(Export(name))
        for name, state in self.model.states.items():
            require(state.is_certain(), "all is certain in the end", name, state)
        await self._list()
        await self._ask()
        for s in uploads[-5:]:
            await self._send([(s, 0, Fate.DELIVERED)])
        world.check()

    @singledispatchmethod
    async def _do(self, operation: Any) -> None:
        raise TypeError(operation)

    @_do.register(Create)
    @_do.register(Close)
    @_do.register(Upload)
    @_do.register(Stream)
    @_do.register(Estimate)
    @_do.register(Export)
    @_do.register(Fetch)
    @_do.register(Browse)
    @_do.register(Replay)
    async def _(self, operation: Request | Replay) -> None:
        await self._together([operation])

    @_do.register
    async def _(self, operation: Together) -> None:
        await self._together(operation.operations)

    @_do.register
    async def _(self, operation: Release) -> None:
        if self.held:
            sent = self.held.pop(operation.which % len(self.held))
            await self._send([(sent, operation.replica, Fate.DELIVERED)])

    @_do.register
    async def _(self, operation: Watch) -> None:
        replica = operation.replica % self.world.replicas
        with suppress(Unreachable):
            await self.world.start(replica)
        watched = self.world.watch(replica, watching(operation.campaign, self.world.tag))
        request = Estimate(operation.campaign, replica)
        last: list[Any] = []
        try:
            goes_on = await self._look(watched, request, last)
            for one in operation.meanwhile:
                await self._do(one)
                if goes_on and self.world.looks_again:
                    goes_on = await self._look(watched, request, last)
        finally:
            await watched.close()

    async def _look(self, watched: Watching, request: Estimate, last: list[Any]) -> bool:
        """Take what a watch shows now; return whether it goes on.

        Args:
            watched: that is looked at.
            request: which says the same once.
            last: the sums that it showed last, none or one.
        """
        now, troubled = self.world.now[request.replica], self.world.troubled(request.replica)
        try:
            responses, more = await watched.look()
        except (Unreachable, Lost):
            return False
        except Refused as refusal:
            answer = self._refused(refusal, request, troubled=troubled)
            self.model.settle([Exchange(request, answer, now)])
            return False
        last[:] = [*last, *map(read_sums, responses)][-1:]
        require(last, "shows an estimate at once", request)
        # If nothing came, then nothing was counted since.
        self.model.settle([Exchange(request, last[0], now)])
        if self.world.looks_again:  # else it may end yet
            self.model.watched(request.campaign, now, more=more)
        return more

    @_do.register
    async def _(self, operation: Clock) -> None:
        replica = operation.replica
        at = None if replica is None else replica % self.world.replicas
        self.world.set_clock(OPENS + operation.after, at)

    @_do.register
    async def _(self, operation: Kill) -> None:
        replica = operation.replica % self.world.replicas
        await self.world.kill(replica, operation.at, all_replicas=operation.all_replicas)

    @_do.register
    async def _(self, operation: Restart) -> None:
        await self.world.restart(operation.replica % self.world.replicas)

    @_do.register
    async def _(self, operation: Cut) -> None:
        replica = operation.replica % self.world.replicas
        await self.world.cut(replica, operation.at, done=operation.done)

    @_do.register
    async def _(self, operation: DiskFull) -> None:
        await self.world.fill_disk(operation.full)

    @_do.register
    async def _(self, operation: RestartDatabase) -> None:
        await self.world.restart_database()

    async def _together(self, operations: Sequence[Request | Replay]) -> None:
        todo = []
        for operation in operations:
            asks = isinstance(operation, Question)
            fate = Fate.DELIVERED if asks else operation.fate
            if not isinstance(operation, Replay):
                one = sent(operation, self.world.tag)
                if not asks:
                    self.sent.append(one)
            elif self.sent:
                one = self.sent[operation.which % len(self.sent)]
            else:
                continue
            todo.append((one, operation.replica, fate))
        await self._send(todo)

    async def _send(self, todo: Sequence[tuple[Sent, int, Fate]]) -> None:
        """Send requests at once, and take their answers."""
        self.held += [one for one, _, fate in todo if fate is Fate.HELD]
        delivered = [(s, r % self.world.replicas, f) for s, r, f in todo if f not in _NEVER_SENT]
        for _, replica, _ in delivered:  # not all at once, and before any caller can give up
            with suppress(Unreachable):
                await self.world.start(replica)
        if len(delivered) != 1:
            found = await asyncio.gather(*(self._exchange(*one) for one in delivered))
            self.model.settle([e for exchanges in found for e in exchanges])
            return
        for e in await self._exchange(*delivered[0]):  # parts of a stream, each after the other
            alone = isinstance(e.request, Upload) and not isinstance(
                delivered[0][0].request, Stream
            )
            if alone and not self.model.lingers:
                require(e.answer != "RESOURCE_EXHAUSTED", "a lone request is not too much", e)
            self.model.settle([e])

    async def _exchange(self, one: Sent, replica: int, fate: Fate) -> list[Exchange]:
        """Send a request, and return what came of it; of a stream, of each part that was sent."""
        world, request = self.world, one.request
        now, troubled = world.now[replica], world.troubled(replica)
        heard: list[Any] = []
        last: Any = UNKNOWN
        try:
            work = self._hear(one, replica, heard)
            if fate is Fate.CALLER_GONE and isinstance(request, Upload | Stream):
                await self._impatiently(work)
            else:
                await work
        except Unreachable:
            return []
        except Lost:
            pass
        except Refused as refusal:
            last = self._refused(refusal, request, troubled=troubled or world.troubled(replica))
        parts = uploads_of(request) if isinstance(request, Upload | Stream) else [request]
        answers = [*heard, *[last] * (len(parts) - len(heard))]
        if last != UNKNOWN:
            del answers[len(heard) + 1 :]  # what comes behind a refusal is not looked at
        if fate in _NEVER_HEARD:
            answers = [UNKNOWN] * len(answers)
        lingers = fate is Fate.CALLER_GONE and isinstance(request, Upload | Stream)
        # Behind a refusal there are fewer.
        return [Exchange(p, a, now, lingers) for p, a in zip(parts, answers, strict=False)]

    async def _hear(self, one: Sent, replica: int, heard: list[Any]) -> None:
        """Send a request and append its answers as they come."""
        world, request = self.world, one.request
        method = METHODS[type(request)]
        match request:
            case Stream():
                parts = iter(uploads_of(request))
                async with aclosing(world.converse(replica, method, one.messages)) as answers:
                    async for answer in answers:
                        part = next(parts, None)
                        require(part, "one answer per part", request)
                        heard.append(read(part, answer, world.tag))
                require(next(parts, None) is None, "an answer per part", request)
            case Export():
                begun = periods_begun(request.campaign, world.now[replica])
                async with aclosing(world.converse(replica, method, one.messages)) as answers:
                    messages = [answer async for answer in answers]
                rows = read_rows(request, messages, world.tag)
                heard.append(sums_of_rows(rows, begun))
                self.model.exported(request.campaign, heard[-1], rows)
            case Browse():
                pages = [await world.call(replica, method, one.messages[0])]
                while token := _next_page(pages[-1]):
                    following = collector_pb2.BrowseCampaignsRequest(page_size=2, page_token=token)
                    pages.append(await world.call(replica, method, following.SerializeToString()))
                heard.append(listed(request, pages, world.tag))
            case _:
                answer = await world.call(replica, method, one.messages[0])
                heard.append(read(request, answer, world.tag))

    def _refused(self, refusal: Refused, request: Request, *, troubled: bool) -> str:
        """Return the name of a refusal that may be."""
        require(refusal.name != "INTERNAL", "no INTERNAL", request)
        if refusal.name == "UNAVAILABLE":
            require(troubled, "serves while it can", request)
        return refusal.name

    async def _impatiently(self, work: Coroutine[Any, Any, None]) -> None:
        """Give up after a moment."""
        task = asyncio.ensure_future(work)
        for _ in range(_TICKS):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    async def _list(self) -> None:
        listed: dict[bytes, int] = {}
        token: str | None = None
        while token != "":
            request = analyst_pb2.ListCampaignsRequest(page_size=2, page_token=token or "")
            answer = await self.world.call(0, "ListCampaigns", request.SerializeToString())
            page = analyst_pb2.ListCampaignsResponse.FromString(answer)
            listed |= {summary.envelope.campaign: summary.reports for summary in page.campaigns}
            token = page.next_page_token
        for name, state in self.model.states.items():
            (variant,) = state.variants
            if variant is not None:
                content = content_of(name, variant, self.world.tag)
                require(content in listed, "campaigns are kept", name)
                self.model.listed(name, listed[content])

    async def _ask(self) -> None:
        """Ask of the points, when all is certain, what they say of a query."""
        state = self.model.states[POINTS]
        if state.variants == {None} or not state.reports:
            return
        keys = [(number, kind) for number, (kind,) in state.reports.items() if kind is not None]
        values = [kernel_value(key) for key in keys]
        wanted = (len(values), sum(values), sum(value * value for value in values))
        for replica in range(self.world.replicas):
            answer = await self.world.call(replica, "EstimateQueries", asking(self.world.tag))
            found = read_sums(answer)
            require(found == {(0, 0): wanted}, "each point counts once", found, wanted)


def _next_page(page: bytes) -> str:
    return str(collector_pb2.BrowseCampaignsResponse.FromString(page).next_page_token)
