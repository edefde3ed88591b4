"""Test a Python client with stubs freshly generated from the .proto files."""

import json
import subprocess
import sys
from pathlib import Path

import grpc
import pytest

from geoveil.campaign import signer
from geoveil.proto.v1 import campaign_pb2, collector_pb2, collector_pb2_grpc

FILES = ("analyst", "campaign", "collector", "report")
PATIENCE_S = 60


@pytest.fixture
def stubs(tmp_path, protos):
    """A folder of generated code, whose package hides the installed one."""
    folder = tmp_path / "stubs"
    folder.mkdir()
    command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{protos}"]
    command += [f"--python_out={folder}", f"--grpc_python_out={folder}"]
    command += [str(protos / f"geoveil/proto/v1/{name}.proto") for name in FILES]
    subprocess.run(command, check=True, timeout=PATIENCE_S)
    for package in ("geoveil", "geoveil/proto", "geoveil/proto/v1"):
        (folder / package / "__init__.py").touch()
    return folder


@pytest.mark.deep(rest=6)
def test_a_client_from_the_contract_alone(server, stubs, expected):
    client = Path(__file__).with_name("raw_client.py")
    done = subprocess.run(
        [sys.executable, str(client), server, str(stubs)],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told.pop("digest") == told.pop("created")
    assert told == expected
    # What it signed, this package believes.
    with grpc.insecure_channel(server) as channel:
        found = collector_pb2_grpc.CollectorStub(channel).GetCampaign(
            collector_pb2.GetCampaignRequest(campaign_id="by-hand")
        )
    envelope = found.envelope
    key = signer(campaign_pb2.CampaignEnvelope.FromString(envelope.SerializeToString()))
    assert key is not None
