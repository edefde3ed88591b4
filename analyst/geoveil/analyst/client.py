"""The analyst's clients, blocking and asyncio: publish questions and read their estimates.

    with Analyst("collector.example:443", tls=TLS(), token=token) as analyst:
        analyst.create(campaign, key)
        for estimates in analyst.watch(campaign.campaign_id):
            print(estimates.estimates[0].value)

Both clients use the same `calls`. Neither retries by itself: an error says whether a later
attempt may succeed.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any, TypeVar, overload

from geoveil.analyst import calls
from geoveil.analyst.calls import Call, PublishedCampaign
from geoveil.analyst.errors import ServerError, TLSMissingError, TokenInClearError
from geoveil.analyst.estimates import CampaignEstimates
from geoveil.analyst.statistics.report_files import ReportRows
from geoveil.analyst.statistics.statistic import Found, Statistic, driven, driven_async
from geoveil.campaign import (
    TLS,
    AttributeCampaign,
    Campaign,
    PointQuestion,
    SigningKey,
    failed,
    is_local,
    open_channel,
    result_of,
    tls_for,
)
from geoveil.gp import ParameterError, validation

TIMEOUT_S = 15.0
"""The default for a call, in seconds."""
_ASKING_S = 600.0
"""For questions to points, which read every report."""
_EXPORTING_S = 3_600.0
_LONGEST_S = 86_400.0 * 7
_Result = TypeVar("_Result")


class _Connection:
    """The parts that both clients share: the checked target, one channel, and the token."""

    def __init__(
        self,
        target: str,
        *,
        tls: TLS | None = None,
        token: str | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        from geoveil.proto.v1 import analyst_pb2_grpc, collector_pb2_grpc  # loads gRPC

        tls = tls_for(target, tls, TLSMissingError)
        if token and tls.insecure and not is_local(target):
            raise TokenInClearError(target)
        if token is not None and not (isinstance(token, str) and token.isascii()):
            raise ParameterError("token", "something else", "text of ASCII characters, or None")
        self._timeout_s = validation.between("timeout_s", timeout_s, 0, _LONGEST_S, low_open=True)
        self._channel = open_channel(target, tls)
        self._analyst = analyst_pb2_grpc.AnalystStub(self._channel)
        self._collector = collector_pb2_grpc.CollectorStub(self._channel)
        self._metadata = (("authorization", f"Bearer {token}"),) if token else ()

    def _started(self, call: Call[Any], *, future: bool = False) -> Any:
        """Send a request; return the answer or, for a stream or a future, the call."""
        if hasattr(self._analyst, call.method):
            method, metadata = getattr(self._analyst, call.method), self._metadata
        else:  # what devices ask, without a token
            method, metadata = getattr(self._collector, call.method), ()
        start = method.future if future else method
        try:
            return start(call.request, timeout=call.timeout_s, metadata=metadata)
        except ValueError as error:  # which gRPC raises for a channel just closed
            raise ServerError("CANCELLED", "the client was closed", answered=False) from error


class Analyst(_Connection):
    """Publishes campaigns and reads their estimates; for any number of threads.

    Args:
        target: a gRPC address, for example "collector.example:443".
        tls: how the two sides authenticate; may be left out for targets on this machine.
        token: the token that the server requires of analysts, if it does.
        timeout_s: for a call, in seconds.

    Raises:
        ParameterError: if an argument is out of range.
        TLSMissingError: if the target is not on this machine and `tls` is None.
        TokenInClearError: if a token would have to be sent in the clear to another machine.
        ServerError: from every method, if the server refuses the call or can't be reached.

    Example:
        >>> with Analyst("127.0.0.1:1", timeout_s=0.5) as analyst:
        ...     try:
        ...         analyst.close_campaign("income")
        ...     except ServerError as error:
        ...         print(error.code in ("UNAVAILABLE", "DEADLINE_EXCEEDED"), error.retryable)
        True True
    """

    def __enter__(self) -> "Analyst":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; calls under way end as CANCELLED."""
        self._channel.close()

    def create(self, campaign: Campaign, key: SigningKey | None = None) -> bytes:
        """Publish a campaign, signed if there is a key; return its digest.

        The same campaign again is welcome.
        """
        return self._unary(calls.create(campaign, key, self._timeout_s))

    def publish(self, envelope: bytes) -> bytes:
        """Publish a campaign that was signed elsewhere; return its digest.

        Args:
            envelope: what `geoveil.campaign.seal` returned; it is relayed unchanged.
        """
        return self._unary(calls.publish(envelope, self._timeout_s))

    def campaigns(self) -> Iterator[PublishedCampaign]:
        """Yield all campaigns, in order of creation."""
        token, more = "", True
        while more:
            page, token = self._unary(calls.page(token, self._timeout_s))
            yield from page
            more = bool(token)

    def campaign(self, campaign_id: str) -> AttributeCampaign:
        """Return a campaign about one attribute, as devices get it."""
        return self._unary(calls.campaign(campaign_id, self._timeout_s))

    def published(self, campaign_id: str) -> Campaign:
        """Return a campaign of any kind, as devices get it."""
        return self._unary(calls.published_campaign(campaign_id, self._timeout_s))

    def close_campaign(self, campaign_id: str) -> None:
        """Stop a campaign from taking reports; its estimate stays."""
        self._unary(calls.close(campaign_id, self._timeout_s))

    def estimate(
        self, campaign_id: str, confidence: float = 0.95, period: int | None = None
    ) -> CampaignEstimates:
        """Return the estimates of a campaign.

        Args:
            confidence: of the intervals, in (0, 1).
            period: of a recurring campaign, from 0; all that have begun by default.
        """
        return self._unary(calls.estimate(campaign_id, confidence, period, self._timeout_s))

    def watch(
        self, campaign_id: str, confidence: float = 0.95, period: int | None = None
    ) -> Iterator[CampaignEstimates]:
        """Yield the estimates whenever they have changed, until the campaign is closed."""
        return self._stream(calls.watch(campaign_id, confidence, period))

    @overload
    def ask(
        self,
        campaign_id: str,
        asked: Sequence[PointQuestion],
        confidence: float = 0.95,
        period: int | None = None,
        *,
        cohorts: bool = ...,
        timeout_s: float = ...,
    ) -> CampaignEstimates: ...

    @overload
    def ask(
        self,
        campaign_id: str,
        asked: Statistic[Found],
        confidence: float = 0.95,
        period: int | None = None,
        *,
        cohorts: bool = ...,
        timeout_s: float = ...,
    ) -> Found: ...

    def ask(
        self,
        campaign_id: str,
        asked: Sequence[PointQuestion] | Statistic[Any],
        confidence: float = 0.95,
        period: int | None = None,
        *,
        cohorts: bool = False,
        timeout_s: float = _ASKING_S,
    ) -> Any:
        """Return the answers of a value campaign's points, at no further cost in privacy.

        Args:
            asked: a statistic, whose result is returned; or questions in the campaign's
                coordinates: see `asked_of_points`.
            confidence: of the intervals, in (0, 1).
            period: of a recurring campaign, from 0; by default all that have begun, but a statistic
                needs one.
            cohorts: whether to query each cohort separately as well, for `over_time`, if the
                campaign's devices reveal theirs. Reads every report once per cohort.
            timeout_s: seconds for each time that every report is read.
        """
        steps = calls.of_people(
            calls.campaign(campaign_id, self._timeout_s), asked, confidence, period, timeout_s,
            cohorts=cohorts,
        )  # fmt: skip
        return driven(steps, self._unary)

    def export(
        self, campaign_id: str, period: int | None = None, *, timeout_s: float = _EXPORTING_S
    ) -> Iterator[bytes | ReportRows]:
        """Yield the bytes of a campaign, then its reports as rows, many at a time.

        Args:
            period: of a recurring campaign, from 0; all that have begun by default.
            timeout_s: seconds for all of them.
        """
        return self._stream(calls.export(campaign_id, period, timeout_s))

    def _unary(self, call: Call[_Result]) -> _Result:
        import grpc

        try:
            return call.read(self._started(call))
        except grpc.RpcError as error:
            raise failed(error, ServerError) from error

    def _stream(self, call: Call[_Result]) -> Iterator[_Result]:
        import grpc

        started = self._started(call)
        try:
            for answer in started:
                yield call.read(answer)
        except grpc.RpcError as error:
            raise failed(error, ServerError) from error
        finally:
            started.cancel()  # does nothing if the call has ended


class AsyncAnalyst(_Connection):
    """Publishes campaigns and reads their estimates; `Analyst` for asyncio.

    Its arguments and errors are those of `Analyst`.
    """

    async def __aenter__(self) -> "AsyncAnalyst":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connection; calls under way end as CANCELLED."""
        self._channel.close()

    async def create(self, campaign: Campaign, key: SigningKey | None = None) -> bytes:
        """Publish a campaign, signed if there is a key; return its digest.

        The same campaign again is welcome.
        """
        return await self._unary(calls.create(campaign, key, self._timeout_s))

    async def publish(self, envelope: bytes) -> bytes:
        """Publish a campaign that was signed elsewhere; return its digest."""
        return await self._unary(calls.publish(envelope, self._timeout_s))

    async def campaigns(self) -> AsyncIterator[PublishedCampaign]:
        """Yield all campaigns, in order of creation."""
        token, more = "", True
        while more:
            page, token = await self._unary(calls.page(token, self._timeout_s))
            for campaign in page:
                yield campaign
            more = bool(token)

    async def campaign(self, campaign_id: str) -> AttributeCampaign:
        """Return a campaign about one attribute, as devices get it."""
        return await self._unary(calls.campaign(campaign_id, self._timeout_s))

    async def published(self, campaign_id: str) -> Campaign:
        """Return a campaign of any kind, as devices get it."""
        return await self._unary(calls.published_campaign(campaign_id, self._timeout_s))

    async def close_campaign(self, campaign_id: str) -> None:
        """Stop a campaign from taking reports; its estimate stays."""
        await self._unary(calls.close(campaign_id, self._timeout_s))

    async def estimate(
        self, campaign_id: str, confidence: float = 0.95, period: int | None = None
    ) -> CampaignEstimates:
        """Return the estimates of a campaign; takes the arguments of `Analyst.estimate`."""
        return await self._unary(calls.estimate(campaign_id, confidence, period, self._timeout_s))

    def watch(
        self, campaign_id: str, confidence: float = 0.95, period: int | None = None
    ) -> AsyncIterator[CampaignEstimates]:
        """Yield the estimates whenever they have changed, until the campaign is closed."""
        return self._stream(calls.watch(campaign_id, confidence, period))

    @overload
    async def ask(
        self,
        campaign_id: str,
        asked: Sequence[PointQuestion],
        confidence: float = 0.95,
        period: int | None = None,
        *,
        cohorts: bool = ...,
        timeout_s: float = ...,
    ) -> CampaignEstimates: ...

    @overload
    async def ask(
        self,
        campaign_id: str,
        asked: Statistic[Found],
        confidence: float = 0.95,
        period: int | None = None,
        *,
        cohorts: bool = ...,
        timeout_s: float = ...,
    ) -> Found: ...

    async def ask(
        self,
        campaign_id: str,
        asked: Sequence[PointQuestion] | Statistic[Any],
        confidence: float = 0.95,
        period: int | None = None,
        *,
        cohorts: bool = False,
        timeout_s: float = _ASKING_S,
    ) -> Any:
        """Return the answers of a value campaign's points; takes the arguments of `Analyst.ask`."""
        steps = calls.of_people(
            calls.campaign(campaign_id, self._timeout_s), asked, confidence, period, timeout_s,
            cohorts=cohorts,
        )  # fmt: skip
        return await driven_async(steps, self._unary)

    def export(
        self, campaign_id: str, period: int | None = None, *, timeout_s: float = _EXPORTING_S
    ) -> AsyncIterator[bytes | ReportRows]:
        """Yield the bytes of a campaign, then its reports as rows, many at a time."""
        return self._stream(calls.export(campaign_id, period, timeout_s))

    async def _unary(self, call: Call[_Result]) -> _Result:
        return call.read(await result_of(self._started(call, future=True), ServerError))

    async def _stream(self, call: Call[_Result]) -> AsyncIterator[_Result]:
        import grpc

        started = self._started(call)
        try:
            while (answer := await asyncio.to_thread(next, started, None)) is not None:
                yield call.read(answer)
        except grpc.RpcError as error:
            raise failed(error, ServerError) from error
        finally:
            started.cancel()
