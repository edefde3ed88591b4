"""A token that is limited to some campaigns reaches no others: each parsed request is looked at."""

from collections.abc import AsyncIterator, Callable, Mapping
from types import MappingProxyType
from typing import Any

from google.protobuf.message import DecodeError

from geoveil.aggregator.grpc.middleware.authorise import refuse
from geoveil.aggregator.grpc.middleware.wrapping import (
    Context,
    Handler,
    behaviour_of,
    generates,
    with_behaviour,
)
from geoveil.aggregator.ops.authorizer import RULES, TOKEN, Denial, DeniedError, Public
from geoveil.proto.v1.campaign_pb2 import Campaign


def _named(request: Any) -> str:
    name: str = request.campaign_id
    return name


def _published(request: Any) -> str:
    try:
        return Campaign.FromString(request.envelope.campaign).campaign_id
    except DecodeError:
        return ""  # of no campaign, as nobody can say of which


_ANALYST = "/geoveil.proto.v1.Analyst/"
CAMPAIGN_OF: Mapping[str, Callable[[Any], str] | None] = MappingProxyType(
    {
        _ANALYST + "CreateCampaign": _published,
        _ANALYST + "CloseCampaign": _named,
        _ANALYST + "ListCampaigns": None,
        _ANALYST + "GetEstimate": _named,
        _ANALYST + "WatchEstimate": _named,
        _ANALYST + "EstimateQueries": _named,
        _ANALYST + "ExportReports": _named,
    }
)
"""Method → the campaign that a request is about; None: it shows those of the token and no others.
A method that is not here refuses every token that is limited."""


class Confine:
    """The innermost layer of the methods that need a token.

    Args:
        denied: told of every refusal.
    """

    def __init__(self, denied: Callable[[Denial], object]) -> None:
        self._denied = denied

    def __call__(self, handler: Handler, method: str) -> Handler:
        """Return a handler that may refuse."""
        if isinstance(RULES.get(method), Public):
            return handler
        behaviour = behaviour_of(handler)

        async def check(request: Any, context: Context) -> None:
            denial = _denial(method, request)
            if denial is not None:
                self._denied(denial)
                await refuse(context, DeniedError(denial))

        async def answer(request: Any, context: Context) -> Any:
            await check(request, context)
            return await behaviour(request, context)

        async def answers(request: Any, context: Context) -> AsyncIterator[Any]:
            await check(request, context)
            async for response in behaviour(request, context):
                yield response

        return with_behaviour(handler, answers if generates(behaviour) else answer)


def _denial(method: str, request: Any) -> Denial | None:
    token = TOKEN.get()
    if token is None or token.campaigns is None:
        return None
    if method not in CAMPAIGN_OF:
        return Denial.NO_RULE
    campaign_of = CAMPAIGN_OF[method]
    if campaign_of is None or campaign_of(request) in token.campaigns:
        return None
    return Denial.OTHER_CAMPAIGN
