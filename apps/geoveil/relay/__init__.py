"""Oblivious HTTP, RFC 9458 with messages of RFC 9292, which separates addresses from requests.

A relay sees addresses but no contents; the gateway sees contents but no addresses. From the ground
up: `binary_http`, `encapsulation`, `keys`, `web`, `transport` and `forwarding`; and for one report
per person `blind_rsa`, `tokens` and `issuer` (RFC 9474, RFC 9578).
"""

from geoveil.gp import __version__ as __version__
from geoveil.relay.binary_http import (
    InnerRequest as InnerRequest,
    InnerResponse as InnerResponse,
    MessageInvalid,
    read_request as read_request,
    write_response as write_response,
)
from geoveil.relay.blind_rsa import IssuerKey
from geoveil.relay.encapsulation import SIZES, room_in_response as room_in_response
from geoveil.relay.forwarding import Relay
from geoveil.relay.issuer import Attester, InvitationCodes, Issuer, IssuerServer, WebAttester
from geoveil.relay.keys import (
    PATH,
    SIGNED as SIGNED,
    GatewayKeys,
    KeyUnknown as KeyUnknown,
    PublishedKey,
)
from geoveil.relay.room import require_room as require_room
from geoveil.relay.tokens import AsyncTokenTransport, TokenTransport
from geoveil.relay.transport import (
    KEYS_TYPE as KEYS_TYPE,
    REQUEST_TYPE as REQUEST_TYPE,
    RESPONSE_TYPE as RESPONSE_TYPE,
    AsyncRelayTransport,
    RelayTransport,
)

__all__ = [
    "PATH",
    "SIZES",
    "AsyncRelayTransport",
    "AsyncTokenTransport",
    "Attester",
    "GatewayKeys",
    "InvitationCodes",
    "Issuer",
    "IssuerKey",
    "IssuerServer",
    "MessageInvalid",
    "PublishedKey",
    "Relay",
    "RelayTransport",
    "TokenTransport",
    "WebAttester",
]
