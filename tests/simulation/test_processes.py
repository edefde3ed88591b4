"""Test that only the command acts on Ctrl-C, at once, although every process receives it."""

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from geoveil.simulation.computing import killed_on_error, unreached_by_ctrl_c

SPAWN = multiprocessing.get_context("spawn")


def wait_to_be_told(told: Any) -> None:
    told.send("ready")
    told.recv()


def started() -> tuple[Any, Any]:
    ours, theirs = SPAWN.Pipe()
    process = SPAWN.Process(target=wait_to_be_told, args=(theirs,))
    with unreached_by_ctrl_c():
        process.start()
    return process, ours


@pytest.mark.deep
def test_a_process_does_not_see_it_and_its_parent_does():
    process, pipe = started()
    assert pipe.recv() == "ready"
    assert process.pid is not None
    os.kill(process.pid, signal.SIGINT)
    pipe.send("end")
    process.join(20)
    assert process.exitcode == 0
    reached: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        _interrupted(reached)
    assert reached == ["the end of the block"]


def test_it_waits_for_the_end_of_the_block_though_another_thread_takes_it():
    over = threading.Event()
    other = threading.Thread(target=over.wait)
    other.start()
    reached: list[str] = []
    try:
        with pytest.raises(KeyboardInterrupt):
            _interrupted_elsewhere(reached)
    finally:
        over.set()
        other.join()
    assert reached == ["the end of the block"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def _interrupted_elsewhere(reached: list[str]) -> None:
    with unreached_by_ctrl_c():
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.05)
        reached.append("the end of the block")


def _interrupted(reached: list[str]) -> None:
    with unreached_by_ctrl_c():
        signal.raise_signal(signal.SIGINT)
        reached.append("the end of the block")


@pytest.mark.deep(keep=0)
def test_an_error_ends_what_was_started_and_nothing_else():
    before, pipe = started()
    assert pipe.recv() == "ready"
    processes: list[Any] = []
    with pytest.raises(KeyboardInterrupt):
        _interrupted_with(processes)
    (during,) = processes
    during.join(20)
    assert during.exitcode == -signal.SIGKILL
    pipe.send("end")
    before.join(20)
    assert before.exitcode == 0


def _interrupted_with(processes: list[Any]) -> None:
    with killed_on_error():
        process, pipe = started()
        processes.append(process)
        assert pipe.recv() == "ready"
        raise KeyboardInterrupt


@pytest.mark.deep(keep=0)
@pytest.mark.parametrize(
    ("command", "sign"),
    [
        (["simulate", "oneway", "--processes", "2"], "oneway-exact"),
        (["simulate", "scale", "--devices", "1000000000"], None),
        (["demo", "--devices", "200000"], "never leave"),
    ],
)
def test_ctrl_c_ends_a_command_and_its_processes(command, sign, tmp_path):
    """Without the traces of those that it ended; `sign` None: as they start."""
    script = "import sys; from geoveil.cli import main; sys.argv[0] = 'geoveil'; main()"
    process = subprocess.Popen(
        [sys.executable, "-c", script, *command],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=tmp_path, start_new_session=True,
        env=os.environ | {"FORCE_COLOR": "1", "COLUMNS": "200"},
    )  # fmt: skip
    assert process.stdout is not None
    shown = b""
    while sign is not None and sign.encode() not in shown:
        more = os.read(process.stdout.fileno(), 4096)
        assert more, shown
        shown += more
    if sign is None:
        while not _children(process.pid):
            time.sleep(0.02)
    os.killpg(process.pid, signal.SIGINT)
    with process:
        try:
            rest, _ = process.communicate(timeout=30)  # after the last has let go of the pipe
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    assert process.returncode == 130
    assert b"Traceback" not in rest, rest.decode()


def _children(pid: int) -> str:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text()
