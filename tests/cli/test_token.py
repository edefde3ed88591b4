"""Test geoveil token: its output, and the secrets that it never prints."""

import re
from datetime import UTC, datetime, timedelta

import pytest

from geoveil.aggregator.ops.tokens import Scope, TokenFile, Tokens
from geoveil.gp import ParameterError


@pytest.fixture
def path(tmp_path):
    return tmp_path / "tokens.json"


@pytest.fixture
def token(geoveil, path):
    return lambda *arguments: geoveil("token", *arguments, "--file", str(path), to_server=False)


def test_create_prints_the_token_alone_on_standard_output(token, path):
    result = token("create", "alice", "--scope", "create, close", "--expires", "90d")
    text = result.stdout.strip()
    assert re.fullmatch(r"geoveil_[\w-]{43}", text)
    kept = Tokens(path).find(text)
    assert kept.name == "alice"
    assert kept.scopes == {Scope.CREATE, Scope.CLOSE}
    assert abs(kept.expires - datetime.now(UTC) - timedelta(days=90)) < timedelta(minutes=5)


def test_by_default_a_token_reads_and_ends(token, path):
    token("create", "bob")
    (kept,) = TokenFile(path).read()
    assert kept.scopes == {Scope.LIST, Scope.ESTIMATE}
    assert kept.expires is not None


def test_list_shows_no_secret_and_marks_what_has_ended(token, path):
    text = token("create", "alice", "--scope", "list", "--expires", "never").stdout.strip()
    TokenFile(path).create("old", [Scope.CLOSE], datetime(2020, 1, 1, tzinfo=UTC))
    shown = token("list").output
    assert [line.split() for line in shown.strip().splitlines()[-2:]] == [
        ["alice", "list", "any", "never"],
        ["old", "close", "any", "2020-01-01", "00:00", "UTC", "expired"],
    ]
    assert text not in shown
    for kept in TokenFile(path).read():
        assert kept.digest.hex()[:8] not in shown


def test_a_token_may_be_limited_to_campaigns(token, path):
    token("create", "alice", "--campaign", "income", "--campaign", "debt")
    token("create", "bob")
    assert [kept.campaigns for kept in TokenFile(path).read()] == [{"income", "debt"}, None]
    shown = token("list").output
    assert "debt, income" in shown
    assert " any " in shown
    with pytest.raises(ParameterError, match="campaign_id"):
        token("create", "carol", "--campaign", "No Id")


def test_revoke_ends_a_token(token, path):
    text = token("create", "alice").stdout.strip()
    tokens = Tokens(path)
    assert token("revoke", "alice").exit_code == 0
    assert tokens.find(text) is None
    with pytest.raises(ParameterError, match="the name of a token"):
        token("revoke", "alice")


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--scope", "all"], "scope must be some of create, close, list, estimate, export"),
        (["--expires", "soon"], "expires must be a whole number"),
    ],
)
def test_what_makes_no_sense_is_refused_and_makes_nothing(token, path, arguments, named):
    with pytest.raises(ParameterError, match=named):
        token("create", "alice", *arguments)
    assert not path.exists()
