"""Test that every benchmark can be imported, since no test runs them."""

import subprocess
import sys


def test_the_command_of_the_benchmarks_names_them_all() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "--help"], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    names = set(done.stdout.replace(",", " ").split())
    assert {"attacks", "partitions", "relations", "wishes"} <= names
