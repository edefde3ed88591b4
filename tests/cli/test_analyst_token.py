"""Test that an analyst's token comes from the environment or a file, and is never sent in clear."""

import pytest

from geoveil.analyst import TLS, Analyst, ServerError, TokenInClearError
from geoveil.cli.connection import CommandError, Connection, analyst_at
from geoveil.cli.options import TOKEN, TOKEN_FILE

SECRET = "a-token-that-nobody-sees"
HERE = Connection(server="127.0.0.1:1")


def test_a_token_is_sent_in_the_clear_to_this_machine_only(monkeypatch):
    monkeypatch.setenv(TOKEN, SECRET)
    with (
        pytest.raises(CommandError, match="over TLS only: give --tls or --tls-roots") as caught,
        analyst_at(Connection(server="aggregator.example:7717")),
    ):
        pass
    assert SECRET not in str(caught.value)
    with analyst_at(HERE) as analyst:
        assert analyst._metadata == (("authorization", f"Bearer {SECRET}"),)
    with pytest.raises(TokenInClearError) as refused:
        Analyst("aggregator.example:7717", tls=TLS(insecure=True), token=SECRET)
    assert SECRET not in str(refused.value)


def test_a_file_holds_the_token_as_well(monkeypatch, tmp_path):
    (tmp_path / "token").write_text(SECRET + "\n")
    monkeypatch.setenv(TOKEN_FILE, str(tmp_path / "token"))
    with analyst_at(HERE) as analyst:
        assert analyst._metadata == (("authorization", f"Bearer {SECRET}"),)
    monkeypatch.setenv(TOKEN_FILE, str(tmp_path / "none"))
    with pytest.raises(CommandError, match=TOKEN_FILE), analyst_at(HERE):
        pass


def test_without_a_token_nothing_is_sent(monkeypatch):
    monkeypatch.delenv(TOKEN, raising=False)
    with analyst_at(Connection(server="aggregator.example:7717")) as analyst:
        assert analyst._metadata == ()


@pytest.mark.parametrize(
    ("error", "kind", "said"),
    [
        (
            ServerError("UNAVAILABLE", "connection refused", answered=False),
            CommandError,
            "no aggregator answers",
        ),
        (ServerError("UNAVAILABLE", "the server is stopping"), ServerError, "is stopping"),
        (ServerError("UNAUTHENTICATED", "a token is needed"), CommandError, TOKEN),
    ],
)
def test_errors_say_what_to_do(monkeypatch, error, kind, said):
    monkeypatch.delenv(TOKEN, raising=False)
    with pytest.raises(kind, match=said), analyst_at(HERE):
        raise error
