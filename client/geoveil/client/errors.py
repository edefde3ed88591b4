"""Errors of the client. None of them means that anything private was lost or sent.

    GeoVeilError                              root, from geoveil.gp
    ├── ParameterError (also ValueError)      an argument of the app is wrong
    ├── PrivateValueError (also ValueError)   the value can't be used; nothing was drawn
    └── ClientError
        ├── PlaintextRefused (also ValueError)  TLS is missing for a target that is not this machine
        ├── ClientClosed                      used after close
        ├── JournalError                      the state directory can't be used, or is damaged
        ├── PolicyRefused                     the campaign asks for what the app does not permit
        ├── BudgetExceeded                    the limits leave too little for it
        ├── OutboxFull                        too much waits to be sent
        ├── CampaignError                     there is no campaign that can be answered
        │   ├── CampaignNotFetched            this device does not have it yet
        │   ├── CampaignNotFound              the server does not know it
        │   ├── CampaignNotOpen               before its dates, past them, or closed
        │   ├── CampaignInvalid               its bytes are not a sound campaign of that id
        │   │   └── FamilyMissing             this app lacks the package for what it asks
        │   └── CampaignChanged               its bytes are not those this device saw first
        └── TransportError                    a call failed, with its gRPC status code

What depends on what a server says is text by somebody who is not trusted: it is cut short and
escaped before it is shown.
"""

# ruff: noqa: N818 - the names say what happened ("delivery failed"), as an app's code reads best.

from datetime import datetime

from geoveil.campaign.connection import CallError, TLSRequiredError, shown
from geoveil.gp import GeoPrivacy, GeoVeilError, ParameterError, PrivateValueError


class ClientError(GeoVeilError):
    """Root of the client's own errors."""


class PlaintextRefused(ClientError, TLSRequiredError):
    """Without TLS, anybody on the way could read reports and replace campaigns."""


class ClientClosed(ClientError):
    """The client has been closed."""

    def __str__(self) -> str:
        return "the client is closed: make a new one"


class JournalError(ClientError):
    """The journal can't be read or written, or is damaged.

    Without it a value could be drawn for twice, so nothing is drawn and nothing is sent.

    Attributes:
        path: path of the state directory or of the file in it.
        reason: what the operating system or SQLite says.
    """

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path = path
        self.reason = reason

    def __str__(self) -> str:
        return f"the journal at {self.path!r} can't be used: {self.reason}"


class PolicyRefused(ClientError):
    """The campaign asks for something that the app's policy does not permit. Nothing was drawn.

    Attributes:
        campaign_id: id of the campaign.
        aspect: what is refused, for example "signature" or "closing date".
        asked: what the campaign says.
        permitted: what the policy permits.
    """

    def __init__(self, campaign_id: str, aspect: str, asked: str, permitted: str) -> None:
        super().__init__(campaign_id, aspect, asked, permitted)
        self.campaign_id = campaign_id
        self.aspect = aspect
        self.asked = asked
        self.permitted = permitted

    def __str__(self) -> str:
        return (
            f"campaign {self.campaign_id!r} is refused: its {self.aspect} is {shown(self.asked)},"
            f" the policy permits {self.permitted}"
        )


class BudgetExceeded(ClientError):
    """The answer would cost more privacy than the policy's limits leave. Nothing was drawn.

    Attributes:
        campaign_id: id of the campaign.
        attribute: what it asks about.
        scope: which limit: "this campaign", "lifetime", or "any ..." of a window.
        spent: ε spent of that limit so far, over the same distance as the limit.
        asked: what the answer would cost.
        limit: the limit.
        frees: when there is room for it again; None if never.
    """

    def __init__(
        self,
        campaign_id: str,
        *,
        attribute: str,
        scope: str,
        spent: float,
        asked: GeoPrivacy,
        limit: GeoPrivacy,
        frees: datetime | None,
    ) -> None:
        super().__init__(campaign_id, attribute, scope, spent, asked, limit, frees)
        self.campaign_id = campaign_id
        self.attribute = attribute
        self.scope = scope
        self.spent = spent
        self.asked = asked
        self.limit = limit
        self.frees = frees

    def __str__(self) -> str:
        again = "never" if self.frees is None else f"from {self.frees.isoformat()}"
        return (
            f"campaign {self.campaign_id!r} asks for {exactly(self.asked)} of"
            f" {shown(self.attribute)!r}; of {exactly(self.limit)}, permitted for {self.scope},"
            f" ε = {self.spent!r} is spent; there is room for it {again}"
        )


class OutboxFull(ClientError):
    """Too much waits to be sent. Nothing was drawn or spent: the new answer is what is dropped.

    Attributes:
        campaign_id: id of the campaign.
        reports: how many wait.
        size: bytes of those.
        most_reports: how many may wait.
        most_bytes: bytes that may wait.
    """

    def __init__(
        self, campaign_id: str, *, reports: int, size: int, most_reports: int, most_bytes: int
    ) -> None:
        super().__init__(campaign_id, reports, size, most_reports, most_bytes)
        self.campaign_id = campaign_id
        self.reports = reports
        self.size = size
        self.most_reports = most_reports
        self.most_bytes = most_bytes

    def __str__(self) -> str:
        return (
            f"campaign {self.campaign_id!r} can't be answered now: {self.reports:,} reports"
            f" ({self.size:,} bytes) wait to be sent, of {self.most_reports:,}"
            f" ({self.most_bytes:,} bytes) that may; nothing was drawn, so try again later"
        )


class CampaignError(ClientError):
    """There is no campaign that can be answered. Nothing was drawn.

    Attributes:
        campaign_id: what was asked for.
    """

    def __init__(self, campaign_id: str, *more: object) -> None:
        super().__init__(campaign_id, *more)
        self.campaign_id = campaign_id


class CampaignNotFound(CampaignError):
    """The server knows no such campaign."""

    def __str__(self) -> str:
        return f"the server knows no campaign {self.campaign_id!r}"


class CampaignNotFetched(CampaignError):
    """This device does not have the campaign yet, and contribute() never waits for the network.

    Attributes:
        cause: why fetching it in the background failed last; None if that was not tried yet.
    """

    def __init__(self, campaign_id: str, cause: ClientError | None = None) -> None:
        super().__init__(campaign_id, cause)
        self.cause = cause

    def __str__(self) -> str:
        why = "" if self.cause is None else f" (it was tried: {self.cause})"
        return (
            f"campaign {self.campaign_id!r} has not been fetched yet{why}: call"
            f" fetch({self.campaign_id!r}) once, where waiting for the network is fine"
        )


class CampaignNotOpen(CampaignError):
    """The campaign takes no reports at the moment.

    Attributes:
        state: "pending" before its opening date, "closed" afterwards.
    """

    def __init__(self, campaign_id: str, state: str) -> None:
        super().__init__(campaign_id, state)
        self.state = state

    def __str__(self) -> str:
        return f"campaign {self.campaign_id!r} is {self.state}: it takes no reports now"


class CampaignInvalid(CampaignError):
    """What the server sent is not a sound campaign of that id.

    Attributes:
        reason: the first thing found wrong.
    """

    def __init__(self, campaign_id: str, reason: str) -> None:
        super().__init__(campaign_id, reason)
        self.reason = reason

    def __str__(self) -> str:
        return f"campaign {self.campaign_id!r} can't be answered: {shown(self.reason)}"


class FamilyMissing(CampaignInvalid):
    """The campaign asks what only another package can answer, and this app does not have it.

    Attributes:
        family: name of the family of queries or mechanisms, as the campaign has it.
        group: group of the entry points by which a package provides such families.
    """

    def __init__(self, campaign_id: str, reason: str, family: str, group: str) -> None:
        super().__init__(campaign_id, reason)
        self.args = (campaign_id, reason, family, group)
        self.family = family
        self.group = group


class CampaignChanged(CampaignError):
    """The server shows other bytes than those this device saw first.

    Attributes:
        pinned: SHA-256 of the campaign as this device saw it first, in hexadecimal.
        found: SHA-256 of what the server shows now, in hexadecimal.
    """

    def __init__(self, campaign_id: str, pinned: str, found: str) -> None:
        super().__init__(campaign_id, pinned, found)
        self.pinned = pinned
        self.found = found

    def __str__(self) -> str:
        return (
            f"campaign {self.campaign_id!r} has changed: this device saw SHA-256 {self.pinned}"
            f" first, the server now shows {self.found}"
        )


class TransportError(ClientError, CallError):
    """A call to the server failed. A transport raises this and nothing else."""


def exactly(privacy: GeoPrivacy) -> str:
    """Return ε with its unit, to the last bit: two that differ must not look the same."""
    return f"ε = {privacy.epsilon!r} per {privacy.per!r} {shown(privacy.unit)}"


__all__ = [
    "BudgetExceeded",
    "CampaignChanged",
    "CampaignError",
    "CampaignInvalid",
    "CampaignNotFetched",
    "CampaignNotFound",
    "CampaignNotOpen",
    "ClientClosed",
    "ClientError",
    "FamilyMissing",
    "GeoVeilError",
    "JournalError",
    "OutboxFull",
    "ParameterError",
    "PlaintextRefused",
    "PolicyRefused",
    "PrivateValueError",
    "TransportError",
    "exactly",
]
