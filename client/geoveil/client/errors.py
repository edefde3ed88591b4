"""Errors of the client. Every one says what happened to the report: nothing drawn, or kept.

    GeoVeilError                              root, from geoveil.gp
    ├── ParameterError (also ValueError)      an argument of the app is wrong
    ├── PrivateValueError (also ValueError)   the value can't be used; nothing was drawn
    └── ClientError
        ├── PlaintextRefused (also ValueError)  TLS is missing for a target that is not this machine
        ├── ClientClosed                      used after close
        ├── JournalError                      the state directory can't be used; nothing is sent
        ├── PolicyRefused                     the campaign asks for more than the app permits
        ├── CampaignError                     the server has no campaign that can be answered
        │   ├── CampaignNotFound
        │   ├── CampaignNotOpen               before its dates, past them, or closed
        │   ├── CampaignInvalid               its bytes are not a sound campaign of that id
        │   └── CampaignChanged               its bytes are not those the report was made for
        ├── TransportError                    a call failed, with its gRPC status code
        ├── DeliveryFailed                    not acknowledged in time; the report is kept
        └── ReportRejected                    the server refused the report for good

All but PlaintextRefused, ClientClosed and JournalError depend on what a server says, and no server
is trusted: whatever text comes from one is cut short and escaped before it is shown.
"""

# ruff: noqa: N818 - the names say what happened ("delivery failed"), as an app's code reads best.

from typing import TYPE_CHECKING

from geoveil.gp import GeoPrivacy, GeoVeilError, ParameterError, PrivateValueError

if TYPE_CHECKING:
    from geoveil.client.contribution import Receipt

_MOST_CHARACTERS = 300


def shown(text: str) -> str:
    """Return a server's text as one short, printable line."""
    cut = text if len(text) <= _MOST_CHARACTERS else text[:_MOST_CHARACTERS] + "…"
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in cut)


class ClientError(GeoVeilError):
    """Root of the client's own errors."""


class PlaintextRefused(ClientError, ValueError):
    """Without TLS, anybody on the way could read reports and replace campaigns."""

    def __init__(self, target: str) -> None:
        super().__init__(target)
        self.target = target

    def __str__(self) -> str:
        return (
            f"{self.target!r} is not on this machine, so it needs TLS: give tls=TLS(), or"
            " tls=TLS(root_certificates=...) for a private authority; tls=TLS(insecure=True) sends"
            " in the clear"
        )


class ClientClosed(ClientError):
    """The client has been closed."""

    def __str__(self) -> str:
        return "the client is closed: make a new one"


class JournalError(ClientError):
    """The journal can't be read or written. Without it a value could be drawn for twice.

    Attributes:
        path: of the state directory or the file in it.
        reason: what the operating system or SQLite says.
    """

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path = path
        self.reason = reason

    def __str__(self) -> str:
        return f"the journal at {self.path!r} can't be used: {self.reason}"


class PolicyRefused(ClientError):
    """The campaign asks for more than the app's policy permits. Nothing was drawn.

    Attributes:
        campaign_id: of the campaign.
        attribute: what it asks about.
        asked: the privacy loss it asks for.
        limit: what the policy permits for this attribute; None if the policy does not list it.
    """

    def __init__(
        self, campaign_id: str, attribute: str, asked: GeoPrivacy, limit: GeoPrivacy | None
    ) -> None:
        super().__init__(campaign_id, attribute, asked, limit)
        self.campaign_id = campaign_id
        self.attribute = attribute
        self.asked = asked
        self.limit = limit

    def __str__(self) -> str:
        permitted = (
            "the policy does not list this attribute"
            if self.limit is None
            else f"the policy permits at most {_exactly(self.limit)}"
        )
        return (
            f"campaign {self.campaign_id!r} asks for {_exactly(self.asked)} of"
            f" {self.attribute!r}; {permitted}"
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


class CampaignChanged(CampaignError):
    """The server shows other bytes than those the one report was made for; it was not counted.

    Attributes:
        pinned: SHA-256 of the campaign the report was made for, in hexadecimal.
        found: SHA-256 of what the server shows now, in hexadecimal.
    """

    def __init__(self, campaign_id: str, pinned: str, found: str) -> None:
        super().__init__(campaign_id, pinned, found)
        self.pinned = pinned
        self.found = found

    def __str__(self) -> str:
        return (
            f"campaign {self.campaign_id!r} has changed: the report was made for SHA-256"
            f" {self.pinned}, the server now shows {self.found}"
        )


class TransportError(ClientError):
    """A call to the server failed. A transport raises this and nothing else.

    Attributes:
        code: name of a gRPC status code, for example "UNAVAILABLE".
        detail: what the server or the network said.
    """

    def __init__(self, code: str, detail: str = "") -> None:
        super().__init__(code, detail)
        self.code = code
        self.detail = detail

    def __str__(self) -> str:
        return f"{self.code}: {shown(self.detail)}" if self.detail else self.code


class DeliveryFailed(ClientError):
    """The report was drawn and kept, but no acknowledgement came.

    Attributes:
        receipt: of the report that is kept, with acknowledged False.
        cause: the last failure.
    """

    def __init__(self, receipt: "Receipt", cause: TransportError) -> None:
        super().__init__(receipt, cause)
        self.receipt = receipt
        self.cause = cause

    def __str__(self) -> str:
        return (
            f"report {self.receipt.report_id} to campaign {self.receipt.campaign_id!r} is not"
            f" acknowledged ({self.cause}); it is kept, and the next contribute or flush sends the"
            " same bytes again"
        )


class ReportRejected(ClientError):
    """The server refused the report for good; it will not be sent again.

    Attributes:
        receipt: of the report, with acknowledged False.
        reason: name of the rejection reason, for example "NOT_OPEN".
        detail: what the server says about it.
    """

    def __init__(self, receipt: "Receipt", reason: str, detail: str) -> None:
        super().__init__(receipt, reason, detail)
        self.receipt = receipt
        self.reason = reason
        self.detail = detail

    def __str__(self) -> str:
        detail = f" ({shown(self.detail)})" if self.detail else ""
        return (
            f"campaign {self.receipt.campaign_id!r} rejected report {self.receipt.report_id}:"
            f" {self.reason}{detail}"
        )


def _exactly(privacy: GeoPrivacy) -> str:
    """Return ε with its unit, to the last bit: two that differ must not look the same."""
    return f"ε = {privacy.epsilon!r} per {privacy.per!r} {shown(privacy.unit)}"


__all__ = [
    "CampaignChanged",
    "CampaignError",
    "CampaignInvalid",
    "CampaignNotFound",
    "CampaignNotOpen",
    "ClientClosed",
    "ClientError",
    "DeliveryFailed",
    "GeoVeilError",
    "JournalError",
    "ParameterError",
    "PlaintextRefused",
    "PolicyRefused",
    "PrivateValueError",
    "ReportRejected",
    "TransportError",
    "shown",
]
