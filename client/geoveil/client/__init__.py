"""The SDK that apps embed: a value is perturbed on the device, and only the result leaves it.

with Client("collector.example:443", policy=policy, state_dir=directory, tls=TLS()) as client:
    receipt = client.contribute("income-2026", 52_000)
"""

from geoveil.client.async_client import AsyncClient
from geoveil.client.batch import Batch, Outcome, gather
from geoveil.client.contribution import Answer, Contribution, Receipt
from geoveil.client.core import AcceptedCampaign, Contributor
from geoveil.client.errors import (
    CampaignChanged,
    CampaignError,
    CampaignInvalid,
    CampaignNotFound,
    CampaignNotOpen,
    ClientClosed,
    ClientError,
    DeliveryFailed,
    GeoVeilError,
    JournalError,
    ParameterError,
    PlaintextRefused,
    PolicyRefused,
    PrivateValueError,
    ReportRejected,
    TransportError,
)
from geoveil.client.grpc_transport import GrpcAioTransport, GrpcTransport
from geoveil.client.in_memory import InMemoryAsyncTransport, InMemoryCollector, InMemoryTransport
from geoveil.client.journal import Rejection, Status
from geoveil.client.policy import Policy
from geoveil.client.retry import Timing
from geoveil.client.session import FlushResult
from geoveil.client.sync_client import Client
from geoveil.client.transport import TLS, AsyncTransport, Transport

__all__ = [
    "TLS",
    "AcceptedCampaign",
    "Answer",
    "AsyncClient",
    "AsyncTransport",
    "Batch",
    "CampaignChanged",
    "CampaignError",
    "CampaignInvalid",
    "CampaignNotFound",
    "CampaignNotOpen",
    "Client",
    "ClientClosed",
    "ClientError",
    "Contribution",
    "Contributor",
    "DeliveryFailed",
    "FlushResult",
    "GeoVeilError",
    "GrpcAioTransport",
    "GrpcTransport",
    "InMemoryAsyncTransport",
    "InMemoryCollector",
    "InMemoryTransport",
    "JournalError",
    "Outcome",
    "ParameterError",
    "PlaintextRefused",
    "Policy",
    "PolicyRefused",
    "PrivateValueError",
    "Receipt",
    "Rejection",
    "ReportRejected",
    "Status",
    "Timing",
    "Transport",
    "TransportError",
    "gather",
]
