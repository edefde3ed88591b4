"""Test tokens limited to campaigns with every method of analysts, over the wire."""

from typing import Any

import grpc
import grpc.aio
import pytest

from geoveil.aggregator.ops.authorizer import RULES
from geoveil.aggregator.ops.tokens import Scope, TokenFile
from geoveil.campaign import seal
from geoveil.gp import ParameterError
from geoveil.proto.v1 import analyst_pb2, campaign_pb2, console_pb2

from .refusals import details_of, refused

SERVICES = {
    analyst_pb2: analyst_pb2.DESCRIPTOR.services_by_name["Analyst"],
    console_pb2: console_pb2.DESCRIPTOR.services_by_name["Console"],
}
MODULES = {m.name: module for module, service in SERVICES.items() for m in service.methods}
ABOUT_NONE = {"ListCampaigns", "GetCaller", "GetStatus"}
DENIED = grpc.StatusCode.PERMISSION_DENIED
ABOUT_ONE = [name for name in MODULES if name not in ABOUT_NONE]


def path_of(method: str) -> str:
    return f"/{SERVICES[MODULES[method]].full_name}/{method}"


@pytest.fixture
def tokens_file(tmp_path):
    return tmp_path / "tokens.json"


@pytest.fixture
async def ask(start_server, tokens_file, publish):
    """A server with campaigns mine, other and others; calls a method of it with a token."""
    everything = TokenFile(tokens_file).create("all", Scope, None)
    channel = (await start_server(tokens_file=tokens_file)).wire.channel

    async def ask(method: str, token: str, **fields: Any) -> Any:
        module = MODULES[method]
        described = SERVICES[module].methods_by_name[method]
        request = getattr(module, described.input_type.name)(**fields).SerializeToString()
        metadata = (("authorization", f"Bearer {token}"),)
        if described.server_streaming:
            stream = channel.unary_stream(path_of(method))(request, metadata=metadata, timeout=20)
            answer = await stream.read()
            stream.cancel()
        else:
            answer = await channel.unary_unary(path_of(method))(
                request, metadata=metadata, timeout=20
            )
        return getattr(module, described.output_type.name).FromString(answer)

    for name in ("other", "mine", "others"):
        await ask("CreateCampaign", everything, envelope=envelope(publish(name)))
    return ask


def envelope(campaign: Any) -> Any:
    return campaign_pb2.CampaignEnvelope.FromString(seal(campaign.published))


def fields_of(method: str, campaign: Any) -> dict[str, Any]:
    if method == "CreateCampaign":
        return {"envelope": envelope(campaign)}
    return named(method, campaign.campaign_id)


def named(method: str, campaign_id: str) -> dict[str, Any]:
    several = method == "GetProgress"
    return {"campaign_ids": ["mine", campaign_id]} if several else {"campaign_id": campaign_id}


@pytest.mark.parametrize("method", ABOUT_ONE)
async def test_a_limited_token_reaches_its_campaigns_and_no_other(
    ask, tokens_file, publish, method
):
    token = TokenFile(tokens_file).create("bob", Scope, None, ["mine", "new"])
    for name in ("other", "others", "unknown", "Mine", ""):
        fields = named(method, name)
        if method == "CreateCampaign":
            fields = fields_of(method, publish(name) if name.islower() else publish("other"))
        error = await refused(DENIED, ask(method, token, **fields))
        assert details_of(error)[0].reason == "OTHER_CAMPAIGN"
    mine = publish("new" if method == "CreateCampaign" else "mine")
    if method == "EstimateQueries":  # refused for what it asks, not for who asks
        await refused(
            grpc.StatusCode.INVALID_ARGUMENT, ask(method, token, **fields_of(method, mine))
        )
    else:
        await ask(method, token, **fields_of(method, mine))


async def test_what_is_no_campaign_is_none_of_its_campaigns(ask, tokens_file):
    token = TokenFile(tokens_file).create("bob", Scope, None, ["mine"])
    for campaign in (b"", b"\xff\xff", b"\x0a\x04mine\x0a\x05other"):
        error = await refused(DENIED, ask("CreateCampaign", token, envelope={"campaign": campaign}))
        assert details_of(error)[0].reason == "OTHER_CAMPAIGN"


async def test_a_limited_token_lists_its_campaigns_alone(ask, tokens_file):
    """Page after page; the tokens of pages name no other either."""
    limited = TokenFile(tokens_file).create("bob", Scope, None, ["mine", "others", "not-there"])
    all_of_them = TokenFile(tokens_file).create("carol", Scope, None)
    for token, expected in (
        (limited, ["mine", "others"]),
        (all_of_them, ["other", "mine", "others"]),
    ):
        found, page = [], ""
        while True:
            response = await ask("ListCampaigns", token, page_size=1, page_token=page)
            found += [
                campaign_pb2.Campaign.FromString(c.envelope.campaign).campaign_id
                for c in response.campaigns
            ]
            page = response.next_page_token
            if not page:
                break
        assert found == expected


def test_methods_of_analysts_take_tokens():
    assert {method for method, rule in RULES.items() if not rule.public} == set(
        map(path_of, MODULES)
    )


async def test_any_token_that_is_known_has_a_name(ask, tokens_file):
    tokens = TokenFile(tokens_file)
    for name, scopes, campaigns in (("bob", [Scope.EXPORT], None), ("carol", Scope, ["mine"])):
        assert (await ask("GetCaller", tokens.create(name, scopes, None, campaigns))).name == name
    error = await refused(grpc.StatusCode.UNAUTHENTICATED, ask("GetCaller", "unknown"))
    assert details_of(error)[0].reason == "TOKEN_UNKNOWN"


async def test_how_the_server_stands_is_for_operators_of_all_of_it(ask, tokens_file):
    tokens = TokenFile(tokens_file)
    told = await ask("GetStatus", tokens.create("bob", [Scope.OPERATE], None))
    assert (told.database, told.on_loopback) == ("SQLite", True)
    assert {"geoveil_ready", "geoveil_queue_weight"} <= {one.name for one in told.samples}
    others = [scope for scope in Scope if scope is not Scope.OPERATE]
    for token in (
        tokens.create("carol", others, None),
        tokens.create("dave", Scope, None, ["mine"]),
    ):
        await refused(DENIED, ask("GetStatus", token))


@pytest.mark.parametrize("campaigns", [[], ["Not an id"], [""], [f"c{i}" for i in range(1_001)]])
def test_limits_that_mean_nothing_are_refused(tokens_file, campaigns):
    with pytest.raises(ParameterError, match="campaign"):
        TokenFile(tokens_file).create("bob", [Scope.LIST], None, campaigns)
    assert not tokens_file.exists()


@pytest.mark.deep
async def test_a_watch_ends_when_its_token_is_revoked(
    start_server, tokens_file, publish, wire_report
):
    file = TokenFile(tokens_file)
    metadata = (("authorization", f"Bearer {file.create('all', Scope, None)}"),)
    server, campaign = await start_server(tokens_file=tokens_file), publish()
    channel, fields = server.wire.channel, fields_of("CreateCampaign", campaign)
    request = analyst_pb2.CreateCampaignRequest(**fields).SerializeToString()
    await channel.unary_unary(path_of("CreateCampaign"))(request, metadata=metadata, timeout=20)
    watch = analyst_pb2.WatchEstimateRequest(campaign_id=campaign.campaign_id)
    watch.interval.seconds = 1
    stream = channel.unary_stream(path_of("WatchEstimate"))(
        watch.SerializeToString(), metadata=metadata, timeout=20
    )
    assert await stream.read()
    file.revoke("all")
    await server.wire.submit(campaign, wire_report(1, (0, 5)))
    error = await refused(grpc.StatusCode.UNAUTHENTICATED, stream.read())
    assert details_of(error)[0].reason == "TOKEN_UNKNOWN"
