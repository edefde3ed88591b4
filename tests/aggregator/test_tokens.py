"""Test the file of tokens: its content, its permissions, and that changes take effect."""

import json
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from hashlib import sha256

import pytest

from geoveil.aggregator.ops.tokens import Scope, TokenFile, Tokens
from geoveil.gp import ParameterError

EXPIRES = datetime(2030, 1, 1, tzinfo=UTC)
ALL = frozenset(Scope)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "tokens.json"


def test_a_token_is_kept_as_its_hash_for_its_owner_alone(path):
    text = TokenFile(path).create("alice", [Scope.LIST, Scope.CREATE], EXPIRES)
    content = path.read_text()
    assert text not in content
    assert text.startswith("geoveil_")
    assert len(text) >= len("geoveil_") + 43, "256 bits"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    (row,) = json.loads(content)["tokens"]
    assert row == {
        "name": "alice",
        "sha256": sha256(text.encode()).hexdigest(),
        "scopes": ["create", "list"],
        "expires": "2030-01-01T00:00:00+00:00",
        "campaigns": None,
    }
    (token,) = TokenFile(path).read()
    assert (token.scopes, token.expires) == ({Scope.LIST, Scope.CREATE}, EXPIRES)
    assert sha256(text.encode()).hexdigest() not in repr(token)
    assert os.listdir(path.parent) == ["tokens.json"], "no temporary file is left"


def test_tokens_are_found_by_themselves_only(path):
    file = TokenFile(path)
    texts = {name: file.create(name, ALL, None) for name in ("a", "b", "c")}
    tokens = Tokens(path)
    for name, text in texts.items():
        found = tokens.find(text)
        assert found is not None
        assert found.name == name
        for wrong in (text[:-1], text + "x", text.upper(), "", sha256(text.encode()).hexdigest()):
            assert tokens.find(wrong) is None


def test_a_running_server_sees_new_and_revoked_tokens(path):
    file = TokenFile(path)
    first = file.create("first", ALL, None)
    tokens = Tokens(path)
    second = file.create("second", ALL, None)
    assert tokens.find(second) is not None
    file.revoke("first")
    assert tokens.find(first) is None
    assert tokens.find(second) is not None


def test_names_are_of_one_token(path):
    file = TokenFile(path)
    file.create("alice", ALL, None)
    with pytest.raises(ParameterError, match="one that no token has"):
        file.create("alice", ALL, None)
    with pytest.raises(ParameterError, match="the name of a token"):
        file.revoke("bob")
    assert [token.name for token in file.read()] == ["alice"]


@pytest.mark.parametrize("name", ["", "a\nb", "x" * 65])
def test_names_are_printable_and_short(path, name):
    with pytest.raises(ParameterError, match="name must be"):
        TokenFile(path).create(name, ALL, None)
    with pytest.raises(ParameterError, match="scopes must be"):
        TokenFile(path).create("x", [], None)
    with pytest.raises(ParameterError, match="time zone"):
        TokenFile(path).create("x", ALL, datetime(2030, 1, 1))
    assert not path.exists()


def test_changes_at_the_same_time_are_all_kept(path):
    names = [f"n{i}" for i in range(40)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda name: TokenFile(path).create(name, ALL, None), names))
    assert sorted(token.name for token in TokenFile(path).read()) == sorted(names)


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_file_that_others_may_write_is_refused(path, mode):
    TokenFile(path).create("alice", ALL, None)
    tokens = Tokens(path)
    path.chmod(mode)
    with pytest.raises(ParameterError, match="chmod 600"):
        TokenFile(path).read()
    with pytest.raises(ParameterError, match="chmod 600"):
        Tokens(path)
    os.utime(path, ns=(1, 1))
    with pytest.raises(ParameterError, match="chmod 600"):
        tokens.find("x")


ROW = {"name": "x", "sha256": 64 * "0", "scopes": ["list"], "expires": None, "campaigns": None}


@pytest.mark.parametrize(
    "content",
    [
        *("", "[]", "{}"),
        json.dumps({"version": 1, "tokens": []}),
        json.dumps({"version": 2, "tokens": ["secret-pasted"]}),
        json.dumps({"version": 2, "tokens": [{"name": "secret-pasted"}]}),
        json.dumps({"version": 2, "tokens": [ROW | {"campaigns": "abc"}]}),
        *(
            json.dumps({"version": 2, "tokens": [ROW | {"sha256": s}]})
            for s in ("secret-pasted", "00")
        ),
    ],
)
def test_files_of_something_else_are_refused_without_quoting_them(path, content):
    path.write_text(content)
    path.chmod(0o600)
    with pytest.raises(ParameterError, match="tokens_file must be") as caught:
        TokenFile(path).read()
    assert "secret-pasted" not in str(caught.value)


def test_an_absent_file_is_refused_and_made_by_the_first_token(path):
    for read in (lambda: TokenFile(path).read(), lambda: Tokens(path)):
        with pytest.raises(ParameterError, match="No such file"):
            read()
    with pytest.raises(ParameterError, match="in a folder that exists"):
        TokenFile(path.parent / "absent" / "t.json").create("x", ALL, None)
