"""The analyst's side of the wire: one call each, errors mapped once."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Annotated

import grpc
import typer

from geoveil.gp import GeoVeilError
from geoveil.proto.v1 import analyst_pb2, analyst_pb2_grpc, campaign_pb2

DEFAULT_SERVER = "127.0.0.1:7717"
TIMEOUT_S = 15.0

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

    Raises:
        ServerError: from every call, when the server refuses it or can't be reached.
    """

    def __init__(self, server: str, roots: Path | None = None) -> None:
        self._server = server
        self._channel = (
            grpc.insecure_channel(server)
            if roots is None
            else grpc.secure_channel(
                server, grpc.ssl_channel_credentials(root_certificates=roots.read_bytes())
            )
        )
        self._stub = analyst_pb2_grpc.AnalystStub(self._channel)

    def __enter__(self) -> "Analyst":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._channel.close()

    def create(self, campaign: bytes) -> bytes:
        """Publish a campaign; return its digest."""
        request = analyst_pb2.CreateCampaignRequest(
            envelope=campaign_pb2.CampaignEnvelope(campaign=campaign)
        )
        with self._mapped():
            return self._stub.CreateCampaign(request, timeout=TIMEOUT_S).campaign_digest

    def list(self) -> list[analyst_pb2.CampaignSummary]:
        """Return every campaign, in order of creation."""
        request = analyst_pb2.ListCampaignsRequest()
        with self._mapped():
            return list(self._stub.ListCampaigns(request, timeout=TIMEOUT_S).campaigns)

    def close_campaign(self, campaign_id: str) -> None:
        """Stop a campaign from taking reports."""
        request = analyst_pb2.CloseCampaignRequest(campaign_id=campaign_id)
        with self._mapped():
            self._stub.CloseCampaign(request, timeout=TIMEOUT_S)

    def estimate(self, campaign_id: str, confidence: float) -> analyst_pb2.GetEstimateResponse:
        """Return the estimates of a campaign."""
        request = analyst_pb2.GetEstimateRequest(campaign_id=campaign_id, confidence=confidence)
        with self._mapped():
            return self._stub.GetEstimate(request, timeout=TIMEOUT_S)

    @contextmanager
    def _mapped(self) -> Iterator[None]:
        try:
            yield
        except grpc.RpcError as error:
            code, details = error.code(), error.details()
            if code is grpc.StatusCode.UNAVAILABLE:
                raise ServerError(
                    f"no aggregator answers at {self._server}: start one with 'geoveil serve',"
                    " or name another with --server"
                ) from error
            raise ServerError(f"{details} ({code.name})") from error
