"""Test the warning that simulate is not private."""

import os
import subprocess
import sys

import pytest

from geoveil.gp import NotPrivateWarning

# simulate says that it is not private

SIMULATE = """
import sys, warnings
{before}
import numpy as np
from geoveil.gp import *
warnings.simplefilter("always")
privacy, query = GeoPrivacy(1.0, per=1.0), Threshold(0.0, 2.0)
rng = np.random.default_rng(1)
{call}
"""
CALLS = {
    "scalar": "LipschitzMechanism(query, privacy).simulate([0.0], rng)",
    "planar": "PlanarLaplace(privacy, 2).simulate([[0.0, 0.0]], rng)",
    "vector": "VectorSmoothMechanism([query], privacy).simulate([0.0], rng)",
}


def messages(before, call):
    """Return the warnings that a fresh interpreter prints, one a line, with the line they blame."""
    done = subprocess.run(
        [sys.executable, "-c", SIMULATE.format(before=before, call=call)],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
    )
    return [line for line in done.stderr.splitlines() if "Warning" in line]


@pytest.mark.deep
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_simulate_beside_the_sdk_warns_once_and_blames_the_caller(call):
    found = messages("import geoveil.client", "\n".join([call] * 3 + list(CALLS.values())))
    assert len(found) == 1
    assert found[0].startswith("<string>:9: NotPrivateWarning: simulate is not private")


@pytest.mark.deep
def test_simulate_without_the_sdk_is_silent():
    assert messages("", "\n".join(CALLS.values())) == []


@pytest.mark.deep
def test_the_library_s_own_experiments_are_silent_and_do_not_use_the_warning_up():
    audit = """
from geoveil.audit import audit, catalogue, attacks
audit(catalogue("LipschitzMechanism"), samples=1000)
attacks.attack_outputs(reachable_samples=20, spacing_samples=20)
"""
    assert messages("import geoveil.client", audit) == []
    assert len(messages("import geoveil.client", audit + CALLS["scalar"])) == 1


@pytest.mark.deep(keep=0)
def test_the_warning_can_be_filtered_by_its_class():
    assert issubclass(NotPrivateWarning, UserWarning)
    off = 'warnings.simplefilter("ignore", NotPrivateWarning)\n'
    assert messages("import geoveil.client", off + CALLS["scalar"]) == []
