"""How requests reach a server: two small interfaces."""

from typing import Protocol

from geoveil.proto.v1 import collector_pb2


class Transport(Protocol):
    """Carries requests to one collector. Shared by threads; whoever made it closes it.

    Both methods return or raise TransportError within `timeout_s` seconds, and try only once.
    """

    def get_campaign(
        self, request: collector_pb2.GetCampaignRequest, timeout_s: float
    ) -> collector_pb2.GetCampaignResponse:
        """Return the campaign as it was published."""
        ...

    def submit_reports(
        self, request: collector_pb2.SubmitReportsRequest, timeout_s: float
    ) -> collector_pb2.SubmitReportsResponse:
        """Return one result per report, once every accepted report is on the server's disk."""
        ...


class AsyncTransport(Protocol):
    """Carries requests to one collector; as `Transport` does, for asyncio."""

    async def get_campaign(
        self, request: collector_pb2.GetCampaignRequest, timeout_s: float
    ) -> collector_pb2.GetCampaignResponse:
        """Return the campaign as it was published."""
        ...

    async def submit_reports(
        self, request: collector_pb2.SubmitReportsRequest, timeout_s: float
    ) -> collector_pb2.SubmitReportsResponse:
        """Return one result per report, once every accepted report is on the server's disk."""
        ...
