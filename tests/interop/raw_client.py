"""A client of the .proto files and this page; nothing of geoveil is imported but what they say.

Arguments: the server's address, and the folder of the code that protoc made. Prints JSON.
"""

import hashlib
import json
import os
import sys
import time
from typing import Any

import grpc
from cryptography.hazmat.primitives.asymmetric.ed25519 import (
    Ed25519PrivateKey,
    Ed25519PublicKey,
)

CONTEXT = b"geoveil campaign v1\n"


def main(address: str, generated: str) -> dict[str, Any]:
    """Register a campaign, contribute to it and read its estimate."""
    sys.path.insert(0, generated)
    from geoveil.proto.v1 import (
        analyst_pb2,
        analyst_pb2_grpc,
        campaign_pb2,
        collector_pb2,
        collector_pb2_grpc,
        report_pb2,
    )

    assert str(campaign_pb2.__file__).startswith(generated)
    assert "geoveil.campaign" not in sys.modules

    now = int(time.time())
    campaign = campaign_pb2.Campaign(
        campaign_id="by-hand",
        title="By hand",
        attribute=campaign_pb2.Attribute(name="income", unit="dollar"),
        privacy=campaign_pb2.Privacy(epsilon=1.0, per=8000.0),
        queries=[
            campaign_pb2.Query(
                label="above",
                threshold=campaign_pb2.Threshold(
                    at=50_000.0, width=24_000.0, profile=campaign_pb2.PROFILE_SMOOTHSTEP
                ),
            )
        ],
        mechanism=campaign_pb2.Mechanism(lipschitz_laplace=campaign_pb2.LipschitzLaplace()),
        allocation=campaign_pb2.ALLOCATION_PARTITION,
        grid=campaign_pb2.Grid(step_exponent=-30),
    )
    campaign.opens.seconds = now - 60
    campaign.closes.seconds = now + 3600
    content = campaign.SerializeToString(deterministic=True)
    key = Ed25519PrivateKey.generate()
    envelope = campaign_pb2.CampaignEnvelope(
        campaign=content,
        signature=campaign_pb2.CampaignSignature(
            public_key=key.public_key().public_bytes_raw(), signature=key.sign(CONTEXT + content)
        ),
    )

    with grpc.insecure_channel(address) as channel:
        analyst = analyst_pb2_grpc.AnalystStub(channel)
        collector = collector_pb2_grpc.CollectorStub(channel)
        created = analyst.CreateCampaign(analyst_pb2.CreateCampaignRequest(envelope=envelope))

        found = collector.GetCampaign(collector_pb2.GetCampaignRequest(campaign_id="by-hand"))
        digest = hashlib.sha256(found.envelope.campaign).digest()
        signature = found.envelope.signature
        Ed25519PublicKey.from_public_bytes(signature.public_key).verify(
            signature.signature, CONTEXT + found.envelope.campaign
        )

        reports = [
            report_pb2.Report(report_id=os.urandom(16), answers=[report_pb2.Answer(value=value)])
            for value in (7, -3, 2**33)
        ]
        request = collector_pb2.SubmitReportsRequest(
            campaign_id="by-hand", campaign_digest=digest, reports=reports
        )
        answers = [
            *collector.SubmitReports(request).results,
            *next(iter(collector.SubmitReportStream(iter([request])))).results,
        ]
        try:
            request.campaign_digest = bytes(32)
            collector.SubmitReports(request)
            refused = "OK"
        except grpc.RpcError as error:
            refused = error.code().name
        (estimate,) = analyst.GetEstimate(
            analyst_pb2.GetEstimateRequest(campaign_id="by-hand")
        ).estimates
    return {
        "digest": digest.hex(),
        "created": created.campaign_digest.hex(),
        "statuses": [report_pb2.ReportStatus.Name(answer.status) for answer in answers],
        "refused": refused,
        "n": estimate.n,
        "sum": estimate.sum,
        "value": estimate.value,
    }


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
