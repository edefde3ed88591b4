"""The analyst's side of the wire: one call each, errors mapped once."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Annotated, Any

import grpc
import typer

from geoveil.campaign import (
    Campaign,
    PointQuestion,
    SigningKey,
    decode,
    encode_point_question,
    seal,
)
from geoveil.client.transport import is_local
from geoveil.gp import GeoVeilError
from geoveil.proto.v1 import (
    analyst_pb2,
    analyst_pb2_grpc,
    campaign_pb2,
    collector_pb2,
    collector_pb2_grpc,
)

DEFAULT_SERVER = "127.0.0.1:7717"
TIMEOUT_S = 15.0
TOKEN_VARIABLE = "GEOVEIL_TOKEN"  # noqa: S105 - its name
"""Of the environment: holds the token that the server asks for, if it does."""
TOKEN_FILE_VARIABLE = "GEOVEIL_TOKEN_FILE"  # noqa: S105 - its name
"""Likewise, the name of a file that holds it."""

Server = Annotated[
    str, typer.Option("--server", "-s", envvar="GEOVEIL_SERVER", help="Address of the aggregator.")
]
RootCertificates = Annotated[
    Path | None,
    typer.Option(
        "--tls-roots",
        envvar="GEOVEIL_TLS_ROOTS",
        exists=True,
        dir_okay=False,
        help="Talk TLS, trusting the certificates in this PEM file.",
    ),
]


class ServerError(GeoVeilError):
    """The server refused a call, or can't be reached."""


class Analyst:
    """A connection to the Analyst service.

    Args:
        server: host:port.
        roots: PEM file of root certificates; None talks in the clear.

    A token in the environment, or in a file that it names, goes with every call; never in the clear
    to another machine.

    Raises:
        ServerError: if a token would have to be sent in the clear, or can't be read; and from every
            call, when the server refuses it or can't be reached.
    """

    def __init__(self, server: str, roots: Path | None = None) -> None:
        self._server = server
        token = _token()
        if token and roots is None and not is_local(server):
            raise ServerError(
                f"{server} is not on this machine, and a token is sent over TLS only: give"
                " --tls-roots"
            )
        self._channel = (
            grpc.insecure_channel(server)
            if roots is None
            else grpc.secure_channel(
                server, grpc.ssl_channel_credentials(root_certificates=roots.read_bytes())
            )
        )
        self._stub = analyst_pb2_grpc.AnalystStub(self._channel)
        self._collector = collector_pb2_grpc.CollectorStub(self._channel)
        self._metadata = (("authorization", f"Bearer {token}"),) if token else ()

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

    def list(self) -> list[analyst_pb2.CampaignSummary]:
        """Return every campaign, in order of creation."""
        request = analyst_pb2.ListCampaignsRequest()
        with self._mapped():
            response = self._stub.ListCampaigns(request, timeout=TIMEOUT_S, metadata=self._metadata)
            return list(response.campaigns)

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
                    " or name another with --server"
                ) from error
            hint = ""
            if code is grpc.StatusCode.UNAUTHENTICATED:
                hint = f"; set {TOKEN_VARIABLE}, or {TOKEN_FILE_VARIABLE} to the name of a file"
            raise ServerError(f"{details} ({code.name}){hint}") from error


def _token() -> str | None:
    name = os.environ.get(TOKEN_FILE_VARIABLE)
    if name is None:
        return os.environ.get(TOKEN_VARIABLE)
    try:
        return Path(name).read_text(encoding="ascii").strip()
    except (OSError, ValueError) as error:
        raise ServerError(
            f"{TOKEN_FILE_VARIABLE} names no file with a token: {type(error).__name__}"
        ) from None


def _answered(error: grpc.RpcError) -> bool:
    """Return whether an error is the server's own, which come with details."""
    metadata: Any = error.trailing_metadata() or ()
    return any(key == "grpc-status-details-bin" for key, _ in metadata)
