"""An analyst's client for pages, with the user's token, over a channel that all pages share.

It adds the calls of the service Console. It exchanges serialized messages, so that a worker process
can make its calls through its parent.
"""

from abc import abstractmethod
from collections.abc import Generator, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

import grpc

from geoveil.analyst import (
    Analyst,
    Call,
    CampaignEstimates,
    PublishedCampaign,
    ServerError,
    published,
)
from geoveil.campaign import failed
from geoveil.gp import validation
from geoveil.proto.v1 import analyst_pb2, collector_pb2, console_pb2

_TIMEOUT_S = 60.0
_MOST_PEOPLE = 10**10
_METHODS = {
    name: (f"/{service.full_name}/{name}", getattr(module, method.output_type.name))
    for module in (collector_pb2, console_pb2, analyst_pb2)
    for service in module.DESCRIPTOR.services_by_name.values()
    for name, method in service.methods_by_name.items()
}
"""Name of a method → its path, and the class of its response."""
_Result = TypeVar("_Result")


class CampaignProgress(NamedTuple):
    """The progress of a campaign."""

    planned: int | None
    """The number of participants that its analyst expects; None if not given."""
    days: Sequence[tuple[int, int]]
    """Increasing days since 1970-01-01 in UTC, each with the total of reports last recorded on it.
    Days without new reports are left out; day 0 stands for the time before days were recorded."""
    published: PublishedCampaign
    """The campaign with its current state."""


class Caller(NamedTuple):
    """The caller of a page."""

    name: str
    """The name of the token; empty if the server requires none."""
    scopes: frozenset[str]
    """The permitted actions."""


class PageAnalyst(Analyst):
    """`Analyst`, with the calls of the service Console."""

    def __init__(self) -> None:
        self._timeout_s = _TIMEOUT_S

    def close(self) -> None:
        """Do nothing: all pages share the channel."""

    @abstractmethod
    def answer(self, method: str, request: bytes, timeout_s: float | None) -> bytes:
        """Return the serialized response to a call."""

    @abstractmethod
    def answers(
        self, method: str, request: bytes, timeout_s: float | None
    ) -> Generator[bytes, None, None]:
        """Yield the serialized responses to a streaming call."""

    def caller(self) -> Caller:
        """Return the owner and the permissions of the token."""
        request = console_pb2.GetCallerRequest()
        return self._unary(
            Call("GetCaller", request, lambda a: Caller(a.name, frozenset(a.scopes)), _TIMEOUT_S)
        )

    def progress(self, campaign_ids: Sequence[str]) -> dict[str, CampaignProgress]:
        """Return the progress of existing campaigns."""
        request = console_pb2.GetProgressRequest(campaign_ids=campaign_ids)
        return self._unary(Call("GetProgress", request, progress_in, _TIMEOUT_S))

    def status_of(self, campaign_id: str) -> CampaignProgress:
        """Return the state and progress of a campaign, for readers who may see its estimates.

        Raises:
            ServerError: NOT_FOUND if the campaign does not exist.
        """
        progress = self.progress([campaign_id]).get(campaign_id)
        if progress is None:
            raise ServerError("NOT_FOUND", "there is no such campaign")
        return progress

    def estimate_or_none(self, campaign_id: str) -> CampaignEstimates | None:
        """Return a survey's estimates; None while it has fewer reports than its minimum."""
        try:
            return self.estimate(campaign_id)
        except ServerError as error:
            if error.code != "FAILED_PRECONDITION":
                raise
            return None

    def plan_participants(self, campaign_id: str, participants: int | None) -> None:
        """Store the expected number of participants; None if unknown."""
        if participants is not None:
            validation.between("participants", participants, 1, _MOST_PEOPLE)
        request = console_pb2.PlanParticipantsRequest(
            campaign_id=campaign_id, participants=participants
        )
        self._unary(Call("PlanParticipants", request, lambda told: None, _TIMEOUT_S))

    def status(self) -> console_pb2.GetStatusResponse:
        """Return the state of the server."""
        request = console_pb2.GetStatusRequest()
        response: console_pb2.GetStatusResponse = self._unary(
            Call("GetStatus", request, lambda answer: answer, _TIMEOUT_S)
        )
        return response

    def _unary(self, call: Call[_Result]) -> _Result:
        content = self.answer(call.method, call.request.SerializeToString(), call.timeout_s)
        return call.read(_METHODS[call.method][1].FromString(content))

    def _stream(self, call: Call[_Result]) -> Iterator[_Result]:
        request = call.request.SerializeToString()
        for content in self.answers(call.method, request, call.timeout_s):
            yield call.read(_METHODS[call.method][1].FromString(content))


class ChannelAnalyst(PageAnalyst):
    """Calls over a channel; blocks its thread.

    Args:
        token: the user's token; None if the server requires none.
    """

    def __init__(self, channel: grpc.Channel, token: str | None) -> None:
        super().__init__()
        self._asked = channel
        self._said = () if token is None else (("authorization", f"Bearer {token}"),)

    def answer(self, method: str, request: bytes, timeout_s: float | None) -> bytes:
        call: Any = self._asked.unary_unary(_METHODS[method][0])
        try:
            content: bytes = call(request, timeout=timeout_s, metadata=self._said)
        except grpc.RpcError as error:
            raise failed(error, ServerError) from None
        return content

    def answers(
        self, method: str, request: bytes, timeout_s: float | None
    ) -> Generator[bytes, None, None]:
        call: Any = self._asked.unary_stream(_METHODS[method][0])
        made = call(request, timeout=timeout_s, metadata=self._said)
        try:
            yield from made
        except grpc.RpcError as error:
            raise failed(error, ServerError) from None
        finally:
            made.cancel()


def progress_in(told: Any) -> dict[str, CampaignProgress]:
    """Return the progress of campaigns in a server's response, by their ids."""
    return {
        campaign.campaign_id: CampaignProgress(
            campaign.planned if campaign.HasField("planned") else None,
            [(day.day, day.reports) for day in campaign.days],
            published(campaign),
        )
        for campaign in told.campaigns
    }
