"""Plays a history in a world, and lets the model judge every answer."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import singledispatchmethod
from typing import Any

from geoveil.proto.v1 import analyst_pb2, campaign_pb2, collector_pb2

from .campaigns import CLOSES, NAMES, OPENS, published, require, wire_report
from .model import UNKNOWN, Exchange, Model
from .operations import (
    START,
    Clock,
    Close,
    Create,
    Cut,
    DiskFull,
    Estimate,
    Fate,
    Kill,
    Operation,
    Release,
    Replay,
    Request,
    Restart,
    RestartDatabase,
    Together,
    Upload,
)
from .world import Lost, Refused, Unreachable, World

_FAR = CLOSES + (CLOSES - OPENS)
_METHODS = {
    Create: "CreateCampaign",
    Close: "CloseCampaign",
    Upload: "SubmitReports",
    Estimate: "GetEstimate",
}
_NEVER_SENT = (Fate.REQUEST_LOST, Fate.HELD)
_NEVER_HEARD = (Fate.RESPONSE_LOST, Fate.CALLER_GONE)
_TICKS = 12
"""Turns of the event loop that a caller waits before it gives up."""


@dataclass(frozen=True)
class Sent:
    """A request as it left, whether it arrived or not."""

    request: Request
    message: bytes


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
        sent = [s for s in self.sent if isinstance(s.request, Upload)]
        world.set_clock(OPENS + START)
        for s in sent:
            await self._send([(s, 0, Fate.DELIVERED)])
        world.set_clock(_FAR)
        for replica in range(world.replicas):
            for name in NAMES:
                await self._do(Estimate(name, replica))
        for name, state in self.model.states.items():
            require(state.is_certain(), "all is certain in the end", name, state)
        await self._list()
        for s in sent[-5:]:
            await self._send([(s, 0, Fate.DELIVERED)])
        world.check()

    @singledispatchmethod
    async def _do(self, operation: Any) -> None:
        raise TypeError(operation)

    @_do.register(Create)
    @_do.register(Close)
    @_do.register(Upload)
    @_do.register(Estimate)
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
            fate = Fate.DELIVERED if isinstance(operation, Estimate) else operation.fate
            if not isinstance(operation, Replay):
                sent = Sent(operation, self._message(operation))
                if not isinstance(operation, Estimate):
                    self.sent.append(sent)
            elif self.sent:
                sent = self.sent[operation.which % len(self.sent)]
            else:
                continue
            todo.append((sent, operation.replica, fate))
        await self._send(todo)

    async def _send(self, todo: Sequence[tuple[Sent, int, Fate]]) -> None:
        """Send requests at once, and take their answers."""
        self.held += [sent for sent, _, fate in todo if fate is Fate.HELD]
        delivered = [(s, r % self.world.replicas, f) for s, r, f in todo if f not in _NEVER_SENT]
        for _, replica, _ in delivered:  # not all at once, and before any caller can give up
            with suppress(Unreachable):
                await self.world.start(replica)
        if len(delivered) == 1:
            exchanges = [await self._exchange(*delivered[0])]
        else:
            exchanges = await asyncio.gather(*(self._exchange(*one) for one in delivered))
        self.model.settle([e for e in exchanges if e is not None])

    async def _exchange(self, sent: Sent, replica: int, fate: Fate) -> Exchange | None:
        world = self.world
        now = world.now[replica]
        troubled = world.troubled(replica)
        lingers = False
        answer: Any
        try:
            call = world.call(replica, _METHODS[type(sent.request)], sent.message)
            if fate is Fate.CALLER_GONE and isinstance(sent.request, Upload):
                answer = await self._impatiently(call)
                lingers = True
            else:
                answer = self._read(sent.request, await call)
        except Unreachable:
            return None
        except Lost:
            answer = UNKNOWN
        except Refused as refusal:
            answer = refusal.name
            require(answer != "INTERNAL", "no INTERNAL", sent.request)
            if answer == "UNAVAILABLE":
                require(troubled or world.troubled(replica), "serves while it can", sent.request)
        if fate in _NEVER_HEARD:
            answer = UNKNOWN
        return Exchange(sent.request, answer, now, lingers)

    async def _impatiently(self, call: Any) -> str:
        """Give a call up after a moment."""
        task = asyncio.ensure_future(call)
        for _ in range(_TICKS):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return UNKNOWN

    def _message(self, request: Request) -> bytes:
        """Return a request as it is sent."""
        campaign = published(request.campaign, getattr(request, "variant", 0), self.world.tag)
        campaign_id = campaign.campaign_id
        message: Any
        match request:
            case Create():
                envelope = campaign_pb2.CampaignEnvelope.FromString(campaign.envelope)
                message = analyst_pb2.CreateCampaignRequest(envelope=envelope)
            case Close():
                message = analyst_pb2.CloseCampaignRequest(campaign_id=campaign_id)
            case Estimate():
                message = analyst_pb2.GetEstimateRequest(campaign_id=campaign_id)
            case Upload(reports=reports):
                message = collector_pb2.SubmitReportsRequest(
                    campaign_id=campaign_id,
                    campaign_digest=campaign.digest,
                    reports=[wire_report(request.campaign, key) for key in reports],
                )
        return bytes(message.SerializeToString())

    def _read(self, request: Request, response: bytes) -> Any:
        """Return what a response says."""
        match request:
            case Upload(reports=reports):
                results = collector_pb2.SubmitReportsResponse.FromString(response).results
                require(len(results) == len(reports), "a result per report", request, results)
                return list(results)
            case Estimate():
                shown = analyst_pb2.GetEstimateResponse.FromString(response).estimates
                labels = [e.label for e in shown if e.period == 0]
                return {
                    (e.period, labels.index(e.label)): (e.n, int(e.sum), int(e.sum_of_squares))
                    for e in shown
                }
        return None

    async def _list(self) -> None:
        request = analyst_pb2.ListCampaignsRequest().SerializeToString()
        response = await self.world.call(0, "ListCampaigns", request)
        listed = {
            summary.envelope.campaign: summary.reports
            for summary in analyst_pb2.ListCampaignsResponse.FromString(response).campaigns
        }
        for name, state in self.model.states.items():
            (variant,) = state.variants
            if variant is not None:
                envelope = published(name, variant, self.world.tag).envelope
                content = campaign_pb2.CampaignEnvelope.FromString(envelope).campaign
                require(content in listed, "campaigns are kept", name)
                self.model.listed(name, listed[content])
