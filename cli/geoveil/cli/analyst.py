"""The analyst's side of the wire: one call each, errors mapped once."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

import grpc

from geoveil.campaign import (
    Campaign,
    PointQuestion,
    SigningKey,
    decode,
    encode_point_question,
    seal,
)
from geoveil.cli.connection import Connection, advice
from geoveil.cli.environment import TOKEN, TOKEN_FILE
from geoveil.client import TLS, open_channel
from geoveil.client.transport import is_local
from geoveil.gp import GeoVeilError
from geoveil.proto.v1 import (
    analyst_pb2,
    analyst_pb2_grpc,
    campaign_pb2,
    collector_pb2,
    collector_pb2_grpc,
)

TIMEOUT_S = 15.0
LAST_PERIOD = 2**32 - 1
"""The last that a request can name."""
_ON_PAGE = 500


class ServerError(GeoVeilError):
    """The server refused a call, or can't be reached."""


class Analyst:
    """A connection to the Analyst service.

    Args:
        server: host:port.
        tls: how to know the server, and it the caller; None talks in the clear.

    A token in the environment, or in a file that it names, goes with every call; never in the clear
    to another machine.

    Raises:
        ServerError: if a token would have to be sent in the clear, or can't be read; and from every
            call, when the server refuses it or can't be reached.
    """

    def __init__(self, server: str, tls: TLS | None = None) -> None:
        self._server = server
        self._tls = tls
        token = _token()
        if token and tls is None and not is_local(server):
            raise ServerError(
                f"{server} is not on this machine, and a token is sent over TLS only: give"
                " --tls-roots"
            )
        self._channel = open_channel(server, tls or TLS(insecure=True))
        self._stub = analyst_pb2_grpc.AnalystStub(self._channel)
        self._collector = collector_pb2_grpc.CollectorStub(self._channel)
        self._metadata = (("authorization", f"Bearer {token}"),) if token else ()

    @classmethod
    def of(cls, connection: Connection) -> "Analyst":
        """Return the connection that options ask for.

        Raises:
            ParameterError: if a file of TLS can't be used.
            ServerError: as `Analyst`.
        """
        return cls(connection.server, connection.tls())

    def __enter__(self) -> "Analyst":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._channel.close()

    def create(self, campaign: bytes, key: SigningKey | None = None) -> bytes:
        """Publish a campaign, signed if there is a key; return its digest."""
        envelope = campaign_pb2.CampaignEnvelope.FromString(seal(campaign, key))
        request = analyst_pb2.CreateCampaignRequest(envelope=envelope)
        with self._mapped():
            return self._stub.CreateCampaign(
                request, timeout=TIMEOUT_S, metadata=self._metadata
            ).campaign_digest

    def list(self) -> Iterator[analyst_pb2.CampaignSummary]:
        """Yield every campaign, in order of creation; asks for a page when it is needed."""
        request = analyst_pb2.ListCampaignsRequest(page_size=_ON_PAGE)
        while True:
            with self._mapped():
                response = self._stub.ListCampaigns(
                    request, timeout=TIMEOUT_S, metadata=self._metadata
                )
            yield from response.campaigns
            request.page_token = response.next_page_token
            if not request.page_token:
                return

    def close_campaign(self, campaign_id: str) -> None:
        """Stop a campaign from taking reports."""
        request = analyst_pb2.CloseCampaignRequest(campaign_id=campaign_id)
        with self._mapped():
            self._stub.CloseCampaign(request, timeout=TIMEOUT_S, metadata=self._metadata)

    def estimate(
        self, campaign_id: str, confidence: float, period: int | None = None
    ) -> analyst_pb2.GetEstimateResponse:
        """Return the estimates of a campaign, of one period or of all that have begun."""
        request = analyst_pb2.GetEstimateRequest(
            campaign_id=campaign_id, confidence=confidence, period=period
        )
        with self._mapped():
            return self._stub.GetEstimate(request, timeout=TIMEOUT_S, metadata=self._metadata)

    def watch(
        self, campaign_id: str, confidence: float, period: int | None = None
    ) -> Iterator[analyst_pb2.GetEstimateResponse]:
        """Yield the estimates whenever they have changed, until the campaign is closed."""
        request = analyst_pb2.WatchEstimateRequest(
            campaign_id=campaign_id, confidence=confidence, period=period
        )
        with self._mapped():
            yield from self._stub.WatchEstimate(request, metadata=self._metadata)

    def campaign(self, campaign_id: str) -> Campaign:
        """Return a campaign, as devices get it."""
        request = collector_pb2.GetCampaignRequest(campaign_id=campaign_id)
        with self._mapped():
            found = self._collector.GetCampaign(request, timeout=TIMEOUT_S)
        return decode(found.envelope.campaign)

    def estimate_queries(
        self,
        campaign_id: str,
        questions: Sequence[PointQuestion],
        confidence: float,
        period: int | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> analyst_pb2.GetEstimateResponse:
        """Return what the points of a value campaign say of queries."""
        request = analyst_pb2.EstimateQueriesRequest(
            campaign_id=campaign_id,
            queries=[encode_point_question(question) for question in questions],
            confidence=confidence,
            period=period,
        )
        with self._mapped():
            return self._stub.EstimateQueries(request, timeout=timeout_s, metadata=self._metadata)

    def export(
        self, campaign_id: str, period: int | None = None, timeout_s: float = TIMEOUT_S
    ) -> Iterator[analyst_pb2.ExportReportsResponse]:
        """Yield the campaign, then its reports as rows."""
        request = analyst_pb2.ExportReportsRequest(campaign_id=campaign_id, period=period)
        with self._mapped():
            yield from self._stub.ExportReports(request, timeout=timeout_s, metadata=self._metadata)

    @contextmanager
    def _mapped(self) -> Iterator[None]:
        try:
            yield
        except grpc.RpcError as error:
            code, details = error.code(), error.details()
            if code is grpc.StatusCode.UNAVAILABLE and not _answered(error):
                raise ServerError(
                    f"no aggregator answers at {self._server}: start one with 'geoveil serve',"
                    f" or name another with --server, {advice(self._tls)}"
                ) from error
            hint = ""
            if code is grpc.StatusCode.UNAUTHENTICATED:
                hint = f"; set {TOKEN}, or {TOKEN_FILE} to the name of a file"
            raise ServerError(f"{details} ({code.name}){hint}") from error


def _token() -> str | None:
    name = os.environ.get(TOKEN_FILE)
    if name is None:
        return os.environ.get(TOKEN)
    try:
        return Path(name).read_text(encoding="ascii").strip()
    except (OSError, ValueError) as error:
        raise ServerError(
            f"{TOKEN_FILE} names no file with a token: {type(error).__name__}"
        ) from None


def _answered(error: grpc.RpcError) -> bool:
    """Return whether an error is the server's own, which come with details."""
    metadata: Any = error.trailing_metadata() or ()
    return any(key == "grpc-status-details-bin" for key, _ in metadata)
