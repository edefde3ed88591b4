"""Test that every example runs as its docstring says."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))


@pytest.mark.deep
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_example_runs(example):
    done = subprocess.run([sys.executable, example], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout
