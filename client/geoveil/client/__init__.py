"""The SDK that apps embed: a value is perturbed on the device, and only the result leaves it.

with Client("collector.example:443", policy=policy, state_dir=directory, tls=TLS()) as client:
    client.fetch("income-2026")                          # once; the only call that needs the server
    receipt = client.contribute("income-2026", 52_000)   # at once; sent in the background
"""

from geoveil.campaign import TLS, PublicKey
from geoveil.client.async_client import AsyncClient
from geoveil.client.contributions import (
    Contribution,
    DeliveryStatus,
    PerturbedAnswer,
    Receipt,
    Rejection,
    ReportBatch,
    SubmissionResult,
    gather,
)
from geoveil.client.device_session import ReportCounts, Timing
from geoveil.client.errors import (
    AnswerNotYet,
    BudgetExceeded,
    CampaignChanged,
    CampaignError,
    CampaignInvalid,
    CampaignNotFetched,
    CampaignNotFound,
    CampaignNotOpen,
    ClientClosed,
    ClientError,
    FamilyMissing,
    JournalError,
    OutboxFull,
    PlaintextRefused,
    PolicyRefused,
    TransportError,
)
from geoveil.client.journal import FILE_NAME as FILE_NAME
from geoveil.client.ledger import Budget
from geoveil.client.limits import LONGEST as LONGEST, Epoch, Limit, Window
from geoveil.client.policy import Policy
from geoveil.client.report_sender import FlushResult, pauses as pauses
from geoveil.client.reports import AcceptedCampaign, ReportBuilder
from geoveil.client.sync_client import Client
from geoveil.client.testing import InMemoryAsyncTransport, InMemoryCollector, InMemoryTransport
from geoveil.client.transport import AsyncTransport, GrpcAioTransport, GrpcTransport, Transport
from geoveil.client.values import Choice, Multiple, Number, Ordinal, Place, Point
from geoveil.gp import (
    GeoVeilError,
    ParameterError,
    PrivateValueError,
    __version__ as __version__,
    not_private,
)

not_private.declare_holder(__name__)

__all__ = [
    "TLS",
    "AcceptedCampaign",
    "AnswerNotYet",
    "AsyncClient",
    "AsyncTransport",
    "Budget",
    "BudgetExceeded",
    "CampaignChanged",
    "CampaignError",
    "CampaignInvalid",
    "CampaignNotFetched",
    "CampaignNotFound",
    "CampaignNotOpen",
    "Choice",
    "Client",
    "ClientClosed",
    "ClientError",
    "Contribution",
    "DeliveryStatus",
    "Epoch",
    "FamilyMissing",
    "FlushResult",
    "GeoVeilError",
    "GrpcAioTransport",
    "GrpcTransport",
    "InMemoryAsyncTransport",
    "InMemoryCollector",
    "InMemoryTransport",
    "JournalError",
    "Limit",
    "Multiple",
    "Number",
    "Ordinal",
    "OutboxFull",
    "ParameterError",
    "PerturbedAnswer",
    "Place",
    "PlaintextRefused",
    "Point",
    "Policy",
    "PolicyRefused",
    "PrivateValueError",
    "PublicKey",
    "Receipt",
    "Rejection",
    "ReportBatch",
    "ReportBuilder",
    "ReportCounts",
    "SubmissionResult",
    "Timing",
    "Transport",
    "TransportError",
    "Window",
    "gather",
]
