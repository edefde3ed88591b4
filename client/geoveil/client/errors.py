"""Errors of the client. None of them means that private data was lost or sent.

    GeoVeilError                              root, from geoveil.gp
    ├── ParameterError (also ValueError)      an argument of the app is wrong
    ├── PrivateValueError (also ValueError)   the value can't be used; nothing was drawn
    └── ClientError
        ├── PlaintextRefused (also ValueError)  TLS is missing for a target that is not this machine
        ├── ClientClosed                      used after close
        ├── JournalError                      the state directory can't be used, or is damaged
        ├── PolicyRefused                     the app does not permit the campaign
        ├── BudgetExceeded                    the limits leave too little for it
        ├── OutboxFull                        too many reports wait for sending
        ├── CampaignError                     there is no campaign that can be answered
        │   ├── CampaignNotFetched            this device does not have it yet
        │   ├── CampaignNotFound              the server does not know it
        │   ├── CampaignNotOpen               before its dates, past them, or closed
        │   ├── AnswerNotYet                  it goes on from two readings, and they are too close
        │   ├── CampaignInvalid               its bytes are not a sound campaign of that id
        │   │   └── FamilyMissing             this app lacks the package for what it asks
        │   └── CampaignChanged               its bytes are not those this device saw first
        └── TransportError                    a call failed, with its gRPC status code

Texts from an untrusted server are shortened and escaped before they are shown.
"""

# ruff: noqa: N818 - the names say what happened ("delivery failed"), as an app's code reads best.

import math
from dataclasses import dataclass
from datetime import datetime

from geoveil.campaign import CallError, TLSRequiredError, one_line
from geoveil.gp import GeoPrivacy, GeoVeilError


class ClientError(GeoVeilError):
    """The base of the client's own errors, whose fields are their arguments."""

    def __post_init__(self) -> None:
        self.args = tuple(vars(self).values())  # pickle rebuilds the error from them


class PlaintextRefused(ClientError, TLSRequiredError):
    """TLS is missing, without which anybody on the way could read reports and replace campaigns."""


class ClientClosed(ClientError):
    """The client has been closed."""

    def __str__(self) -> str:
        return "the client is closed: make a new one"


@dataclass(eq=False, repr=False)
class JournalError(ClientError):
    """The journal can't be read or written, or is damaged.

    Without it the client could perturb a value twice, so it draws and sends nothing.
    """

    path: str
    """The path of the state directory or of its file."""
    reason: str
    """The message of the operating system or SQLite."""

    def __str__(self) -> str:
        return f"the journal at {self.path!r} can't be used: {self.reason}"


@dataclass(eq=False, repr=False)
class PolicyRefused(ClientError):
    """The app's policy does not permit the campaign. Nothing was drawn."""

    campaign_id: str
    aspect: str
    """The refused part, for example "signature" or "closing date"."""
    stated: str
    """The campaign's value."""
    permitted: str
    """The policy's permitted value."""

    def __str__(self) -> str:
        return (
            f"campaign {self.campaign_id!r} is refused: its {self.aspect} is"
            f" {one_line(self.stated)},"
            f" the policy permits {self.permitted}"
        )


@dataclass(eq=False, repr=False)
class BudgetExceeded(ClientError):
    """The answer would cost more privacy than the policy's limits leave. Nothing was drawn."""

    campaign_id: str
    attribute: str
    scope: str
    """The limit: "this campaign", "lifetime", or "any ..." for a window."""
    spent: float
    """The spent part of the limit: ε over the same distance as the limit."""
    cost: GeoPrivacy
    """The answer's cost."""
    limit: GeoPrivacy
    frees: datetime | None
    """The time from which there is room for it; None for never."""
    spent_delta: float = 0.0
    """The spent δ of the limit."""

    def __str__(self) -> str:
        slack = f" and δ = {self.spent_delta!r}" if self.cost.delta or self.limit.delta else ""
        room = (
            "there will never be room for it"
            if self.frees is None
            else f"there is room for it from {self.frees.isoformat()}"
        )
        return (
            f"campaign {self.campaign_id!r} asks for {exactly(self.cost)} of"
            f" {one_line(self.attribute)!r}; of {exactly(self.limit)}, permitted for {self.scope},"
            f" ε = {self.spent!r}{slack} is spent; {room}"
        )


@dataclass(eq=False, repr=False)
class OutboxFull(ClientError):
    """Too many reports wait for sending. The new answer is dropped; nothing was drawn or spent."""

    campaign_id: str
    reports: int
    """The number of waiting reports."""
    size: int
    """The bytes of waiting reports."""
    most_reports: int
    """The most reports that may wait."""
    most_bytes: int
    """The most bytes that may wait."""

    def __str__(self) -> str:
        return (
            f"campaign {self.campaign_id!r} can't be answered now: {self.reports:,} reports"
            f" ({self.size:,} bytes) wait to be sent, of {self.most_reports:,}"
            f" ({self.most_bytes:,} bytes) at most; nothing was drawn, so try again later"
        )


@dataclass(eq=False, repr=False)
class CampaignError(ClientError):
    """The campaign can't be answered. Nothing was drawn."""

    campaign_id: str


class CampaignNotFound(CampaignError):
    """The server knows no such campaign."""

    def __str__(self) -> str:
        return f"the server has no campaign {self.campaign_id!r}"


@dataclass(eq=False, repr=False)
class CampaignNotFetched(CampaignError):
    """This device does not have the campaign yet, and contribute() never waits for the network."""

    cause: ClientError | None = None
    """The error of the last background fetch; None before the first attempt."""

    def __str__(self) -> str:
        why = "" if self.cause is None else f" (it was tried: {self.cause})"
        return (
            f"campaign {self.campaign_id!r} has not been fetched yet{why}: call"
            f" fetch({self.campaign_id!r}) once, where waiting for the network is fine"
        )


@dataclass(eq=False, repr=False)
class CampaignNotOpen(CampaignError):
    """The campaign takes no answers at the moment."""

    state: str
    """Its state: "pending" before its opening date, "closed" afterwards; "in its window" while
    devices only send reports drawn before."""

    def __str__(self) -> str:
        return f"campaign {self.campaign_id!r} is {self.state}: it takes no answers now"


@dataclass(eq=False, repr=False)
class AnswerNotYet(CampaignError):
    """The campaign extrapolates from two readings, and the device's readings don't reach to now.

    Otherwise the answer would be biased if the mean drifts. Nothing was drawn or spent.
    """

    starts: datetime
    """The start of this device's next epoch, whose reading can answer at once."""

    def __str__(self) -> str:
        return (
            f"campaign {self.campaign_id!r} can't be answered before {self.starts.isoformat()}: its"
            " answers continue the change between two readings, for as long as lay between them"
        )


@dataclass(eq=False, repr=False)
class CampaignInvalid(CampaignError):
    """The server did not send a valid campaign with this id."""

    reason: str
    """The first fault."""

    def __str__(self) -> str:
        return f"campaign {self.campaign_id!r} can't be answered: {one_line(self.reason)}"


@dataclass(eq=False, repr=False)
class FamilyMissing(CampaignInvalid):
    """The campaign needs another package, which this app does not have."""

    family: str
    """The campaign's name of the family of queries or mechanisms."""
    group: str
    """The entry point group in which packages provide such families."""


@dataclass(eq=False, repr=False)
class CampaignChanged(CampaignError):
    """The server sends other bytes than this device first received."""

    pinned: str
    """SHA-256 of the campaign that this device first received, in hexadecimal."""
    current: str
    """SHA-256 of the campaign that the server sends now, in hexadecimal."""

    def __str__(self) -> str:
        return (
            f"campaign {self.campaign_id!r} has changed: this device saw SHA-256 {self.pinned}"
            f" first, the server now shows {self.current}"
        )


class TransportError(ClientError, CallError):
    """A call to the server failed. Transports raise only this error."""


def exactly(privacy: GeoPrivacy) -> str:
    """Return a guarantee with its unit in full precision, so that different ones look different."""
    epsilon, per, delta, reach = (
        repr(x).removesuffix(".0")
        for x in (privacy.epsilon, privacy.per, privacy.delta, privacy.reach)
    )
    parts = [f"ε = {epsilon} per {per} {one_line(privacy.unit)}"]
    if privacy.delta > 0:
        parts.append(f"δ = {delta}")
    if privacy.reach < math.inf:
        parts.append(f"up to {reach} {one_line(privacy.unit)}")
    return ", ".join(parts)
