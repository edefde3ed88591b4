"""Permissions: the permitted callers and campaigns of each method; other methods are refused."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from datetime import datetime
from enum import Enum
from types import MappingProxyType
from typing import Any, NamedTuple

from google.protobuf.message import DecodeError

from geoveil.aggregator.domain.errors import StatusOfCode
from geoveil.aggregator.ops.settings import Settings
from geoveil.aggregator.ops.tokens import Scope, Token, Tokens
from geoveil.gp import GeoVeilError
from geoveil.proto.v1.campaign_pb2 import Campaign

ERROR_DOMAIN = "geoveil"
"""The domain in `google.rpc.ErrorInfo`."""
_SCHEME = "bearer"
TOKEN: ContextVar[Token | None] = ContextVar("token", default=None)
"""The token of the call in progress; None if the call needs no token."""


def _named(request: Any) -> Iterable[str]:
    return (request.campaign_id,)


def _listed(request: Any) -> Iterable[str]:
    ids: Iterable[str] = request.campaign_ids
    return ids


def _published(request: Any) -> Iterable[str]:
    try:
        return (Campaign.FromString(request.envelope.campaign).campaign_id,)
    except DecodeError:
        return ("",)  # the campaign is unreadable


def _every(request: Any) -> Iterable[str]:
    return ("",)  # no token is limited to this one


class Rule(NamedTuple):
    """The permitted callers of a method."""

    scope: Scope | None
    """The scope that a token needs; None for any token."""
    campaigns: Callable[[Any], Iterable[str]] | None
    """The campaigns of a request; None if it shows only the token's own."""
    public: bool = False
    """Whether anyone may call it without a token."""


_COLLECTOR = "/geoveil.proto.v1.Collector/"
_ANALYST = "/geoveil.proto.v1.Analyst/"
_CONSOLE = "/geoveil.proto.v1.Console/"
_HEALTH = "/grpc.health.v1.Health/"
_PUBLIC = Rule(None, None, public=True)

RULES: Mapping[str, Rule] = MappingProxyType(
    {
        _COLLECTOR + "GetCampaign": _PUBLIC,
        _COLLECTOR + "BrowseCampaigns": _PUBLIC,
        _COLLECTOR + "SubmitReports": _PUBLIC,
        _COLLECTOR + "SubmitReportStream": _PUBLIC,
        _ANALYST + "CreateCampaign": Rule(Scope.CREATE, _published),
        _ANALYST + "CloseCampaign": Rule(Scope.CLOSE, _named),
        _ANALYST + "ListCampaigns": Rule(Scope.LIST, None),
        _ANALYST + "GetEstimate": Rule(Scope.ESTIMATE, _named),
        _ANALYST + "WatchEstimate": Rule(Scope.ESTIMATE, _named),
        _ANALYST + "EstimateQueries": Rule(Scope.ESTIMATE, _named),
        _ANALYST + "ExportReports": Rule(Scope.EXPORT, _named),
        _CONSOLE + "GetCaller": Rule(None, None),
        _CONSOLE + "GetProgress": Rule(Scope.ESTIMATE, _listed),
        _CONSOLE + "PlanParticipants": Rule(Scope.CREATE, _named),
        _CONSOLE + "GetStatus": Rule(Scope.OPERATE, _every),
        _HEALTH + "Check": _PUBLIC,
        _HEALTH + "List": _PUBLIC,
        _HEALTH + "Watch": _PUBLIC,
        # Served only if the settings enable it.
        "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo": _PUBLIC,
    }
)
"""Method → the callers that it permits; other methods are refused."""


class Denial(Enum):
    """The reason for a refusal, under the name that `google.rpc.ErrorInfo` states."""

    TOKEN_MISSING = StatusOfCode(
        "UNAUTHENTICATED", "the call needs a token (authorization: Bearer ...)"
    )
    TOKEN_UNKNOWN = StatusOfCode(
        "UNAUTHENTICATED", "the token is not known: it may have been revoked"
    )
    TOKEN_EXPIRED = StatusOfCode("UNAUTHENTICATED", "the token has expired: ask for a new one")
    TOKENS_UNREADABLE = StatusOfCode("UNAVAILABLE", "tokens can't be checked now: send again later")
    SCOPE_MISSING = StatusOfCode("PERMISSION_DENIED", "the token does not permit this call")
    OTHER_CAMPAIGN = StatusOfCode("PERMISSION_DENIED", "the token is limited to other campaigns")
    ANALYST_CLOSED = StatusOfCode("PERMISSION_DENIED", "this server takes no calls from analysts")
    NO_RULE = StatusOfCode("PERMISSION_DENIED", "nobody may call this method")


class DeniedError(GeoVeilError):
    """The caller may not make this call; `scope` is the missing scope, if that is the reason."""

    def __init__(self, denial: Denial, scope: Scope | None = None) -> None:
        super().__init__(denial, scope)
        self.denial = denial
        self.scope = scope

    def __str__(self) -> str:
        needs = "" if self.scope is None else f": it needs the scope {self.scope.value}"
        return self.denial.value.text + needs


class Authorizer:
    """Admits or refuses calls by `RULES`.

    If `tokens` is None, it admits analysts only if `open_without_tokens`.
    """

    def __init__(
        self,
        tokens: Tokens | None,
        *,
        open_without_tokens: bool,
        clock: Callable[[], datetime],
    ) -> None:
        self._tokens = tokens
        self._open = open_without_tokens
        self._clock = clock

    @classmethod
    def of(cls, settings: Settings, clock: Callable[[], datetime]) -> "Authorizer":
        """Return a server's authorizer; ParameterError if the token file is unusable."""
        return cls(
            None if settings.tokens_file is None else Tokens(settings.tokens_file),
            open_without_tokens=settings.on_loopback or settings.insecure_open_analyst,
            clock=clock,
        )

    @property
    def analysts(self) -> str:
        """The permitted callers of the Analyst service, in words for the log."""
        if self._tokens is not None:
            return "with a token"
        return "anyone" if self._open else "nobody"

    def admit(self, method: str, authorization: Sequence[str]) -> Token | None:
        """Return the caller's token, or None if the call needs none; raise DeniedError otherwise.

        `authorization` has all values of this key in the call's metadata.
        """
        rule = RULES.get(method)
        if rule is None:
            raise DeniedError(Denial.NO_RULE)
        if rule.public:
            return None
        if self._tokens is None:
            if self._open:
                return None
            raise DeniedError(Denial.ANALYST_CLOSED)
        token = _find(self._tokens, authorization)
        if token.expires is not None and token.expires <= self._clock():
            raise DeniedError(Denial.TOKEN_EXPIRED)
        if rule.scope is not None and rule.scope not in token.scopes:
            raise DeniedError(Denial.SCOPE_MISSING, rule.scope)
        return token


def _find(tokens: Tokens, authorization: Sequence[str]) -> Token:
    if len(authorization) != 1:
        raise DeniedError(Denial.TOKEN_MISSING)
    scheme, _, text = authorization[0].partition(" ")
    if scheme.lower() != _SCHEME or not text:
        raise DeniedError(Denial.TOKEN_MISSING)
    try:
        token = tokens.find(text)
    except GeoVeilError as error:
        raise DeniedError(Denial.TOKENS_UNREADABLE) from error
    if token is None:
        raise DeniedError(Denial.TOKEN_UNKNOWN)
    return token


def confine(method: str, request: Any) -> None:
    """Confine a limited token to its campaigns; DeniedError if the request needs another."""
    token = TOKEN.get()
    if token is None or token.campaigns is None:
        return
    campaigns = RULES[method].campaigns
    if campaigns is not None and not token.campaigns.issuperset(campaigns(request)):
        raise DeniedError(Denial.OTHER_CAMPAIGN)
