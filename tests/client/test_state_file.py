"""The file of a state directory: private, whole or absent, never another's, safe to fork."""

import os
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from geoveil.client import JournalError
from geoveil.client.state_file import StateFile
from geoveil.gp import ParameterError

NAME = "x.sqlite3"
SCHEMA = "CREATE TABLE word (text TEXT NOT NULL);"
FILES = [NAME, *(f"{NAME}-{more}" for more in ("shm", "wal", "mark"))]


def opened(directory: Path, version: int = 1) -> StateFile:
    return StateFile(directory, NAME, SCHEMA, version)


def write(file: StateFile, text: str) -> None:
    with file.transaction(writes=True) as connection:
        connection.execute("INSERT INTO word VALUES (?)", (text,))


def words(file: StateFile) -> list[str]:
    with file.transaction(writes=False) as connection:
        return [text for (text,) in connection.execute("SELECT text FROM word ORDER BY rowid")]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
def file(directory: Path) -> Iterator[StateFile]:
    made = opened(directory)
    yield made
    made.close()


def test_only_the_owner_has_access_whatever_the_umask(tmp_path: Path) -> None:
    directory = tmp_path / "a" / "state"
    before = os.umask(0)
    try:
        file = opened(directory)
        write(file, "a")  # while the log and its index exist
        modes = {p.name: stat.S_IMODE(p.stat().st_mode) for p in directory.iterdir()}
    finally:
        os.umask(before)
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert modes == dict.fromkeys(FILES, 0o600)
    file.close()


def test_what_an_app_left_open_to_others_is_closed_to_them(directory: Path) -> None:
    file = opened(directory)
    write(file, "a")
    for path in directory.iterdir():
        path.chmod(0o644)
    again = opened(directory)
    assert {stat.S_IMODE(p.stat().st_mode) for p in directory.iterdir()} == {0o600}
    again.close()
    file.close()


@pytest.mark.parametrize("mode", [0o755, 0o770, 0o701, 0o720, 0o704])
def test_a_directory_that_others_can_enter_is_refused(directory: Path, mode: int) -> None:
    directory.mkdir()
    directory.chmod(mode)
    with pytest.raises(JournalError, match="chmod 700"):
        opened(directory)
    assert list(directory.iterdir()) == []


@pytest.mark.parametrize("wrong", ["", 5, b"state", "a\0b", object()])
def test_what_is_no_directory_is_named(wrong: Any) -> None:
    with pytest.raises(ParameterError, match="state_dir must be the path of a directory, or None"):
        opened(wrong)


def test_a_transaction_that_fails_leaves_nothing(file: StateFile) -> None:
    def fail() -> None:
        with file.transaction(writes=True) as connection:
            connection.execute("INSERT INTO word VALUES ('a')")
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert words(file) == []
    write(file, "b")
    assert words(file) == ["b"]


def test_what_is_closed_opens_again_on_disk_only(file: StateFile) -> None:
    write(file, "a")
    file.close()
    assert words(file) == ["a"]
    memory = StateFile(None, NAME, SCHEMA, 1)
    assert not memory.durable
    memory.sync()
    memory.close()
    with pytest.raises(JournalError, match=r"'memory'.*it is closed"):
        words(memory)


def test_closing_leaves_the_file_and_its_mark_and_nothing_open(
    directory: Path, file: StateFile
) -> None:
    write(file, "a")
    file.close()
    assert {p.name for p in directory.iterdir()} == {NAME, f"{NAME}-mark"}
    assert [path for path in _open_files() if str(directory) in path] == []


def _open_files() -> list[str]:
    found = []
    for descriptor in os.listdir("/proc/self/fd"):
        try:
            found.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        except OSError:  # closed meanwhile: the listing's own
            continue
    return found


def test_one_that_vanished_is_never_made_anew(directory: Path, file: StateFile) -> None:
    write(file, "a")
    (directory / NAME).unlink()
    for use in (lambda: words(file), lambda: write(file, "b")):
        with pytest.raises(JournalError, match="No such file"):
            use()
    assert NAME not in [p.name for p in directory.iterdir()]


@pytest.mark.parametrize("close", [False, True])
def test_one_put_in_its_place_is_refused(directory: Path, file: StateFile, close: bool) -> None:
    """It has forgotten what was drawn."""
    write(file, "a")
    if close:
        file.close()
    (directory / NAME).rename(directory / "old")  # keeps its inode from being given again
    for name in FILES[1:]:
        (directory / name).unlink(missing_ok=True)
    opened(directory).close()
    for use in (lambda: words(file), lambda: write(file, "b")):
        with pytest.raises(JournalError, match="another file has taken its place"):
            use()


def test_a_draft_that_was_left_half_made_is_never_taken_for_the_file(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(*paths: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(os, "link", crash)
        with pytest.raises(KeyboardInterrupt):
            opened(directory)
    assert list(directory.iterdir()) == []
    (directory / f"{NAME}.0123456789abcdef").write_bytes(b"half")  # as after kill -9
    file = opened(directory)
    write(file, "a")
    assert words(file) == ["a"]
    file.close()


def test_a_file_of_a_faster_process_is_kept(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    genuine = os.link

    def overtaken(source: Path, target: Path) -> None:
        monkeypatch.setattr(os, "link", genuine)
        faster = opened(directory)
        write(faster, "first")
        faster.close()
        genuine(source, target)

    monkeypatch.setattr(os, "link", overtaken)
    slower = opened(directory)
    assert words(slower) == ["first"]
    assert NAME in [p.name for p in directory.iterdir()]
    assert {p.name for p in directory.iterdir()} <= set(FILES)
    slower.close()


def test_sync_brings_the_log_and_its_directory_to_the_disk(
    directory: Path, file: StateFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    genuine = os.fsync

    def fsync(descriptor: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        genuine(descriptor)

    write(file, "a")
    monkeypatch.setattr(os, "fsync", fsync)
    file.sync()
    assert synced == [str(directory / f"{NAME}-wal"), str(directory)]
    file.close()  # the last connection leaves everything in the file itself
    synced.clear()
    file.sync()
    assert synced == []


def test_what_the_disk_says_becomes_a_journal_error(
    file: StateFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(descriptor: int) -> None:
        raise OSError(5, "Input/output error")

    write(file, "a")
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(JournalError, match="Input/output error"):
        file.sync()


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is forbidden to root")
def test_a_place_where_nothing_can_be_written_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(JournalError, match="Permission denied"):
        opened(tmp_path / "state")


def test_a_file_in_place_of_the_directory_is_refused(directory: Path) -> None:
    directory.write_text("")
    with pytest.raises(JournalError):
        opened(directory)


def test_odd_names_are_only_names(tmp_path: Path) -> None:
    directory = tmp_path / "state?mode=memory#%41"
    file = opened(directory)
    write(file, "a")
    assert (directory / NAME).exists()
    file.close()


def test_a_path_that_is_relative_stays_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = StateFile("state", NAME, SCHEMA, 1)
    monkeypatch.chdir("/")
    write(file, "a")
    assert (tmp_path / "state" / NAME).exists()
    file.close()


def test_another_that_writes_is_waited_for(directory: Path, file: StateFile) -> None:
    """Until the other process has committed; then both have what they wrote."""
    import threading

    other = sqlite3.connect(directory / NAME, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    other.execute("INSERT INTO word VALUES ('other')")
    thread = threading.Thread(target=write, args=(file, "mine"))
    thread.start()
    other.execute("COMMIT")
    thread.join(timeout=30)
    assert words(file) == ["other", "mine"]
    other.close()


FORK = """
import os, sys, threading
from pathlib import Path
from geoveil.client.state_file import StateFile

file = StateFile(sys.argv[1], "x.sqlite3", "CREATE TABLE word (text TEXT NOT NULL);", 1)
memory = StateFile(None, "x.sqlite3", "CREATE TABLE word (text TEXT NOT NULL);", 1)

def held():
    links = [os.readlink(f"/proc/self/fd/{d}") for d in os.listdir("/proc/self/fd")
             if os.path.islink(f"/proc/self/fd/{d}")]
    return [link for link in links if sys.argv[1] in link]

def write(file, text):
    with file.transaction(writes=True) as connection:
        connection.execute("INSERT INTO word VALUES (?)", (text,))

stop = threading.Event()

def busy():
    while not stop.wait(0.001):  # SQLite's lock is not fair: no pause at all may starve the others
        write(file, "thread")

write(file, "parent before")
write(memory, "before")
assert held()
thread = threading.Thread(target=busy)
thread.start()
children = []
for number in range(5):
    child = os.fork()
    if child == 0:
        assert held() == [], "a child inherits no connection"
        write(file, f"child {number}")
        write(memory, f"child {number}")
        with memory.transaction(writes=False) as connection:
            assert connection.execute("SELECT count(*) FROM word").fetchone() == (2,)
        os._exit(0)
    children.append(child)
    write(file, f"parent {number}")
for child in children:
    assert os.waitpid(child, 0)[1] == 0
stop.set()
thread.join()
with file.transaction(writes=False) as connection:
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    found = {text for (text,) in connection.execute("SELECT text FROM word")}
expected = {"parent before", "thread"}
expected |= {f"{who} {number}" for who in ("parent", "child") for number in range(5)}
assert found == expected, found
"""


@pytest.mark.deep
def test_a_fork_has_no_connection_and_both_sides_go_on(directory: Path) -> None:
    """While a thread of the parent writes again and again."""
    done = subprocess.run(
        [sys.executable, "-c", FORK, str(directory)], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr


def left_open(directory: Path) -> tuple[StateFile, dict[str, bytes]]:
    """Return a file with ten words and what a crash would leave of its directory."""
    file = opened(directory)
    for number in range(10):
        write(file, f"word {number}")
    names = [NAME, f"{NAME}-wal", f"{NAME}-mark"]
    return file, {name: (directory / name).read_bytes() for name in names}


def put(directory: Path, contents: dict[str, bytes]) -> Path:
    directory.mkdir(mode=0o700)
    for name, content in contents.items():
        (directory / name).write_bytes(content)
    return directory


def test_a_crash_loses_nothing(directory: Path, tmp_path: Path) -> None:
    """The control of those below."""
    file, contents = left_open(directory)
    after = opened(put(tmp_path / "after", contents))
    assert len(words(after)) == 10
    after.close()
    file.close()


@pytest.mark.parametrize("end", [0, 32, 4000, 9000, -4120, -1])
def test_a_log_that_lost_its_end_is_refused(directory: Path, tmp_path: Path, end: int) -> None:
    """SQLite itself takes it for one whose last transactions never ended."""
    file, contents = left_open(directory)
    log = contents[f"{NAME}-wal"]
    contents[f"{NAME}-wal"] = log[:end]
    with pytest.raises(JournalError, match="of the commits made are missing"):
        opened(put(tmp_path / "after", contents))
    with pytest.raises(JournalError, match="of the commits made are missing"):  # nor later
        opened(tmp_path / "after")
    file.close()


def test_a_power_failure_may_lose_what_was_not_flushed_and_nothing_else(
    directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = opened(directory)
    flushed: dict[str, bytes] = {}
    for number in range(10):
        write(file, f"word {number}")
        if number == 4:
            file.sync()
            flushed = {p.name: p.read_bytes() for p in directory.iterdir()}
    mark = f"{NAME}-mark"
    before = flushed | {mark: (directory / mark).read_bytes()}  # the last that the disk got
    file.close()
    del before[f"{NAME}-shm"]
    with pytest.raises(JournalError, match="5 of the commits made are missing"):
        opened(put(tmp_path / "same run", before))
    monkeypatch.setattr("geoveil.client.state_file._boot", lambda: "another run of the machine")
    after = opened(put(tmp_path / "lost", before))
    assert len(words(after)) == 5
    after.close()
    log = before[f"{NAME}-wal"]
    before[f"{NAME}-wal"] = log[: len(log) // 2]
    with pytest.raises(JournalError, match="of the commits made are missing"):
        opened(put(tmp_path / "less", before))


@pytest.mark.parametrize("content", [b"", b"\0" * 128, b"9 9 x y", b"\xff" * 128, b"99 99 none 00"])
def test_a_mark_that_is_none_says_nothing(directory: Path, tmp_path: Path, content: bytes) -> None:
    file, contents = left_open(directory)
    after = opened(put(tmp_path / "after", contents | {f"{NAME}-mark": content}))
    assert len(words(after)) == 10
    after.close()
    file.close()


def test_another_format_is_refused_and_kept(directory: Path) -> None:
    old = opened(directory)
    write(old, "a")
    old.close()
    with pytest.raises(JournalError, match="its format is 1, this geoveil knows 2"):
        StateFile(directory, NAME, SCHEMA, 2)
    again = opened(directory)
    assert words(again) == ["a"]
    again.close()


def test_the_log_is_copied_once_in_a_while(directory: Path) -> None:
    """Not at every flush once it was long: a log that was copied is not shortened by SQLite."""
    file = opened(directory)
    connection, statements = file._connection, list[str]()
    assert connection is not None
    connection.set_trace_callback(statements.append)
    for _ in range(60):
        with file.transaction(writes=True) as writing:
            writing.execute("INSERT INTO word (text) VALUES (?)", ("x" * 50_000,))
        file.sync()
    copied = sum("wal_checkpoint" in statement for statement in statements)
    assert 1 <= copied <= 5, "60 times 56 kB, once for each MiB"
    assert (directory / f"{NAME}-wal").stat().st_size < 2 << 20
    file.close()
