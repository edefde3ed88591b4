"""Test that refusals of the system and invalid arguments end a command with one sentence."""

import os
import subprocess
import sys

import pytest

from geoveil.cli import main

SCRIPT = "import sys; sys.argv[0] = 'geoveil'; from geoveil.cli import main; main()"
ODD = "\udcff"  # as Python gives a byte of an argument that is no UTF-8
LONG = 300 * "x"
DEEP = 100_000 * "["


@pytest.fixture
def command(monkeypatch, tmp_path, capsys, status_of):
    """Run the command as its process would; return its status and what it says to users."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "deep").write_text(DEEP)
    (tmp_path / "deep.toml").write_text(f"a = {DEEP}")

    return lambda *arguments: (status_of(*arguments), capsys.readouterr().err)


@pytest.mark.parametrize(
    "arguments",
    [
        ["client", "history", "--state-dir", LONG],
        ["token", "list", "--file", "deep"],
        ["serve", "--check", "--tokens-file", "deep"],
        ["contribute", ODD, "--yes"],
        ["contribute", "a", "--state-dir", LONG],
        ["estimate", ODD],
        ["contribute", "a", "--state-dir", ""],
        ["health", "--tls-roots", ""],
    ],
)
def test_what_can_not_be_used_is_refused_in_one_line(command, arguments):
    status, said = command(*arguments)
    assert status == 1
    (line,) = [line for line in said.splitlines() if not line.startswith("  ")]
    assert line.startswith("error: ")


@pytest.mark.parametrize(
    ("arguments", "expected"), [(["estimate", "a"], 1), (["campaign", "export", "a"], 2)]
)
def test_a_period_that_no_request_can_name_is_refused(command, arguments, expected):
    status, said = command(*arguments, "--period", str(2**32))
    assert status == expected
    assert "--period" in said


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
