"""Test that every error of an operator or the system gives one line and a status, no traceback.

In this process, as the command itself would do it: errors are turned into lines by `main`.
"""

import os
import re
import socket
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from geoveil.aggregator.store import SQLiteStore, open_store
from geoveil.cli import main
from geoveil.cli.console import err

SCRIPT = "import sys; sys.argv[0] = 'geoveil'; from geoveil.cli import main; main()"
ODD = "\udcff"  # as Python gives a byte of an argument that is no UTF-8
LONG = 300 * "x"
DEEP = 100_000 * "["


@pytest.fixture
def run(monkeypatch, tmp_path, capfd, without_settings, status_of):
    """Run the command in an empty folder; return status, standard output and error."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(err, "width", 400)
    monkeypatch.setattr("geoveil.cli.serve.configure", lambda *_: None)
    return lambda *arguments: (status_of(*arguments), *capfd.readouterr())


@pytest.fixture
def one_line(run):
    """Run the command; return the one line that it ends with, on standard error."""

    def line(*arguments):
        status, printed, told = run(*arguments)
        assert status == 1, told
        assert printed == ""
        (line,) = told.splitlines()
        assert line.startswith("error: "), told
        return line

    return line


CONFIGURATIONS = {
    "an unknown key": (b"prot = 1", "perhaps port"),
    "a word for a number": (b'port = "x"', "port must be an integer"),
    "no TOML": (b"port = ", "TOML"),
    "no text": (b"\xff\xfe\x00", "TOML"),
    "a missing certificate": (b'tls_certificate = "a"\ntls_key = "b"', "tls_certificate must be"),
    "a number of 5,000 digits": (b"port = " + b"9" * 5000, "config must be TOML"),
    "a name that no file has": (b'tokens_file = "a\\u0000b"', "tokens_file must be"),
}


@pytest.mark.parametrize("what", CONFIGURATIONS)
def test_a_wrong_configuration_is_named(one_line, tmp_path, what):
    content, told = CONFIGURATIONS[what]
    (tmp_path / "a.toml").write_bytes(content)
    assert told in one_line("serve", "--check", "--config", "a.toml")


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("GEOVEIL_PORT", "tcp://x", "GEOVEIL_PORT must be an integer from 0 to 65,535"),
        ("GEOVEIL_PRT", "1", "perhaps GEOVEIL_PORT"),
    ],
)
def test_a_wrong_variable_is_named(one_line, monkeypatch, name, value, told):
    monkeypatch.setenv(name, value)
    assert told in one_line("serve")


def test_a_port_in_use(run):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        status, _, told = run("serve", "--port", str(port))
    assert status == 1
    # gRPC writes a line of its own before.
    assert told.splitlines()[-1].startswith("error: --port must be free")
    assert "Traceback" not in told


def of_a_later_version(path):
    SQLiteStore(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE geoveil_revision SET version_num = '0099'")
    connection.close()


def of_something_else(path):
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE person (name)")
    connection.close()


def cut_short(path):
    SQLiteStore(path).close()
    path.write_bytes(path.read_bytes()[:5000])


DATABASES = {
    "of a later version": (of_a_later_version, "install a later geoveil"),
    "of something else": (of_something_else, "another program's tables"),
    "no database": (lambda path: path.write_bytes(50_000 * b"r"), "file is not a database"),
    "cut short": (cut_short, "malformed"),
}


@pytest.mark.parametrize("what", DATABASES)
@pytest.mark.parametrize("command", ["check", "backup"])
def test_a_database_that_can_not_be_used(one_line, run, tmp_path, what, command):
    make, told = DATABASES[what]
    make(tmp_path / "a.db")
    more = ["copy.db"] if command == "backup" else []
    if (what, command) == ("of a later version", "backup"):
        assert run("db", command, *more, "-d", "a.db")[0] == 0  # copied as it is
        return
    line = one_line("db", command, *more, "-d", "a.db")
    assert told in line
    assert "send again" not in line
    assert not (tmp_path / "copy.db").exists()


@pytest.mark.parametrize("what", DATABASES)
def test_no_server_starts_on_it(run, tmp_path, what):
    make, told = DATABASES[what]
    make(tmp_path / "a.db")
    status, _, error = run("serve", "-d", "a.db", "--port", "0")
    assert status == 1
    assert error.splitlines()[-1].startswith("error: the database can't be used: ")
    assert "Traceback" not in error
    assert told in error


def test_a_server_without_its_database_is_told_what_an_operator_can_do(run, monkeypatch):
    monkeypatch.setenv("GEOVEIL_DATABASE", "postgresql://u:31415@127.0.0.1:1/x")
    status, _, error = run("serve", "--port", "0")
    assert status == 1
    line = error.splitlines()[-1]
    assert line.startswith("error: the database can't be used: connection failed")
    assert "send again" not in line
    assert "31415" not in error


def test_databases_that_are_not_there(one_line, tmp_path):
    for arguments in (["check"], ["backup", "copy.db"]):
        assert "a file that exists" in one_line("db", *arguments, "-d", "absent.db")
    assert "database must be" in one_line("db", "check", "-d", "mysql://host/x")
    assert "--database-url-file" in one_line("db", "check", "--database-url-file", "absent")
    told = one_line("db", "check", "-d", "postgresql://u:31415@127.0.0.1:1/x")
    assert "31415" not in told
    (tmp_path / "url").write_text("postgresql://u:31415@127.0.0.1:1/x")
    told = one_line("db", "check", "--database-url-file", "url")
    assert "can't be used" in told
    assert "31415" not in told


TOKENS = {"no JSON": b"{", "no text": b"\xff", "a list": b"[]", "empty": b""}


@pytest.mark.parametrize("what", TOKENS)
def test_a_file_of_tokens_that_is_none(one_line, tmp_path, what):
    file = tmp_path / "tokens.json"
    file.write_bytes(TOKENS[what])
    file.chmod(0o600)
    for arguments in (["list"], ["create", "alice"], ["revoke", "alice"]):
        assert "tokens" in one_line("token", *arguments, "--file", "tokens.json")
    assert file.read_bytes() == TOKENS[what]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["token", "revoke", "alice", "--file", "absent.json"], "name must be the name of a token"),
        (["token", "create", "alice", "--file", "no/folder/tokens.json"], "file"),
        (["token", "create", "a\nb"], "name"),
        (["token", "list", "--file", "deep"], "a file is nested too deeply to be read"),
        (["serve", "--check", "--tokens-file", "deep"], "nested too deeply"),
        (["client", "history", "--state-dir", LONG], "File name too long"),
        (["contribute", "a", "--state-dir", ""], "--state-dir must be the path of"),
        (["health", "--tls-roots", ""], "--tls-roots must be the path of"),
        (["contribute", ODD, "--yes"], "an argument is not text in UTF-8"),
        (["estimate", ODD], "an argument is not text in UTF-8"),
        (["estimate", "a", "--period", str(2**32)], "--period"),
    ],
)
def test_what_can_not_be_used_is_refused_in_one_line(one_line, tmp_path, arguments, told):
    (tmp_path / "deep").write_text(DEEP)
    assert told in one_line(*arguments)


def run_with_output(output):
    return subprocess.run(
        [sys.executable, "-c", SCRIPT, "--help"], stdout=output, stderr=subprocess.PIPE, text=True
    )


@pytest.mark.deep(keep=0)
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no device that is full")
def test_a_full_disk_is_an_error():
    with open("/dev/full", "w") as full:
        done = run_with_output(full)
    assert done.returncode == 1
    assert done.stderr == "error: the system refuses: No space left on device\n"


@pytest.mark.deep(keep=0)
def test_a_reader_that_has_gone_is_none():
    reading, writing = os.pipe()
    os.close(reading)
    done = run_with_output(writing)
    os.close(writing)
    assert (done.returncode, done.stderr) == (1, "")


def test_ctrl_c_before_the_command_is_loaded_is_one_as_well(monkeypatch):
    def interrupted():
        raise KeyboardInterrupt

    monkeypatch.setattr("geoveil.cli.app.run", interrupted)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 130
    light = "import sys, geoveil.cli; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", light]).returncode == 0


@pytest.mark.deep(keep=0)
def test_a_file_that_only_others_can_read(tmp_path):
    """In a process without the rights of root, if this one has them."""
    if os.geteuid() != 0:
        pytest.skip("only root can become somebody without rights")
    (tmp_path / "secret").write_text("31415")
    (tmp_path / "secret").chmod(0o600)
    SQLiteStore(tmp_path / "a.db").close()
    tmp_path.chmod(0o755)
    (tmp_path / "a.db").chmod(0o444)
    for folder in tmp_path.parents:
        if not folder.stat().st_mode & 1:
            folder.chmod(folder.stat().st_mode | 1)
    program = """
import os, sys
from geoveil.cli import main

def run_all():
    for arguments in ([["serve", "--config", "secret"], ["serve", "--tokens-file", "secret"],
                       ["serve", "-d", "a.db", "--port", "0"],
                       ["db", "backup", "x", "-d", "secret"],
                       ["db", "check", "-d", "secret"], ["health", "--tls-roots", "secret"],
                       ["token", "list", "--file", "secret"],
                       ["token", "create", "x", "--file", "new.json"]]):
        sys.argv = ["geoveil", *arguments]
        sys.stderr.write("> " + " ".join(arguments) + "\\n")
        try:
            main()
        except SystemExit as ended:
            sys.stderr.write(f"< {ended.code}\\n")

# Once with all rights, on folders: whatever is imported late may be of root alone.
for name in ("a.db", "secret", "new.json"):
    os.makedirs("warm/" + name)
os.chdir("warm")
run_all()
os.chdir("..")
os.setgid(65534); os.setuid(65534)
sys.stderr.write("no rights\\n")
run_all()
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "COLUMNS": "400"}
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    parts = done.stderr.partition("no rights\n")[2].split("> ")[1:]
    assert len(parts) == 8, done.stderr
    for part in parts:
        _, *told, status = part.splitlines()
        if status == "< 2":  # what typer itself finds is in a frame
            assert re.search("not (readable|writable)", part), part
        else:
            assert status == "< 1", part
            assert len(told) == 1, part
            assert told[0].startswith("error: "), part
    assert "Traceback" not in done.stderr
    assert "31415" not in done.stderr


KILLED = """
import os, re, signal, sys
from pathlib import Path
from sqlalchemy import event
from geoveil.aggregator.store import open_store, sqlite

made = sqlite.create_engine
limit = 0
def create_engine(*arguments, **more):
    engine = made(*arguments, **more)
    def execute(*_):
        global limit
        limit -= 1
        if limit < 0:
            os.kill(os.getpid(), signal.SIGKILL)
    event.listen(engine, "before_cursor_execute", execute)
    return engine

sqlite.create_engine = create_engine
folder = Path(sys.argv[1])
for number in range(1000):
    limit = number
    database = folder / f"{number}.db"
    child = os.fork()
    if child == 0:
        open_store(database).close()
        os._exit(0)
    killed = os.WIFSIGNALED(os.waitpid(child, 0)[1])
    print(number, killed, flush=True)
    if not killed:
        break
"""


@pytest.mark.deep
def test_making_the_tables_killed_anywhere_has_done_all_or_nothing(run, tmp_path):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path)],
        env=environment, capture_output=True, text=True, timeout=200, check=True,
    )  # fmt: skip
    killed = [line.endswith("True") for line in done.stdout.splitlines()]
    assert killed == [True] * (len(killed) - 1) + [False]
    assert len(killed) > 8  # statements at which it was
    made = []
    for number in range(len(killed)):
        database = str(tmp_path / f"{number}.db")
        if os.path.exists(database):
            with sqlite3.connect(database) as connection:
                made += connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
            connection.close()
        open_store(Path(database)).close()
        assert run("db", "check", "-d", database)[2].endswith("sound\n")
    assert set(made) == {0, made[-1]}  # all that the last has, which nothing killed
