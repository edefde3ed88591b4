"""The token of an analyst: from the environment or a file, and never in the clear elsewhere."""

import grpc
import pytest

from geoveil.cli.analyst import Analyst, ServerError
from geoveil.cli.environment import TOKEN, TOKEN_FILE

SECRET = "a-token-that-nobody-sees"


def test_a_token_is_sent_in_the_clear_to_this_machine_only(monkeypatch):
    monkeypatch.setenv(TOKEN, SECRET)
    with pytest.raises(ServerError, match="over TLS only") as caught:
        Analyst("aggregator.example:7717")
    assert SECRET not in str(caught.value)
    with Analyst("127.0.0.1:1") as analyst:
        assert analyst._metadata == (("authorization", f"Bearer {SECRET}"),)


def test_a_file_holds_the_token_as_well(monkeypatch, tmp_path):
    (tmp_path / "token").write_text(SECRET + "\n")
    monkeypatch.setenv(TOKEN_FILE, str(tmp_path / "token"))
    with Analyst("127.0.0.1:1") as analyst:
        assert analyst._metadata == (("authorization", f"Bearer {SECRET}"),)
    monkeypatch.setenv(TOKEN_FILE, str(tmp_path / "none"))
    with pytest.raises(ServerError, match=TOKEN_FILE):
        Analyst("127.0.0.1:1")


def test_without_a_token_nothing_is_sent(monkeypatch):
    monkeypatch.delenv(TOKEN, raising=False)
    with Analyst("aggregator.example:7717") as analyst:
        assert analyst._metadata == ()


class Refused(grpc.RpcError):
    """An error of a call, as grpc's own classes have it."""

    def __init__(self, code, details, metadata=()):
        self._parts = code, details, metadata

    def code(self):
        return self._parts[0]

    def details(self):
        return self._parts[1]

    def trailing_metadata(self):
        return self._parts[2]


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (Refused(grpc.StatusCode.UNAVAILABLE, "connection refused"), "no aggregator answers"),
        (
            Refused(
                grpc.StatusCode.UNAVAILABLE,
                "the server is stopping",
                (("grpc-status-details-bin", b""),),
            ),
            "the server is stopping",
        ),
        (Refused(grpc.StatusCode.UNAUTHENTICATED, "a token is needed"), TOKEN),
    ],
)
def test_errors_say_what_to_do(monkeypatch, error, said):
    monkeypatch.delenv(TOKEN, raising=False)
    with (
        Analyst("127.0.0.1:1") as analyst,
        pytest.raises(ServerError, match=said),
        analyst._mapped(),
    ):
        raise error
