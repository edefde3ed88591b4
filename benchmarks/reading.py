"""Requests of one campaign from bytes to stored rows, read by NumPy and by protobuf.

The reference creates objects of generated code (in C underneath), then checks and packs each
report. The NumPy reader is kept for sizes at which it is at least 1.3 times as fast.
"""

from collections.abc import Sequence
from functools import partial

from benchmarks.serving import Requests, campaign_of_load
from benchmarks.timing import Figure, medians, show
from geoveil.aggregator.domain.campaign_cache import Publication, publish
from geoveil.aggregator.domain.preparation import prepare
from geoveil.aggregator.grpc.submissions import UnreadReports, read_batch
from geoveil.campaign import encode, seal
from geoveil.proto.v1.collector_pb2 import SubmitReportsRequest

SIZES = (1, 40, 100, 1_000, 4_096)
"""Reports per request; below about eighty, both read by protobuf."""
REPORTS = 20_000


def table() -> list[Figure]:
    """Print microseconds per report."""
    campaign = campaign_of_load()
    record, _ = publish(seal(encode(campaign)), None)
    publication = Publication(record)

    def ours(messages: Sequence[bytes]) -> None:
        for message in messages:
            prepare(publication, read_batch(message).reports, 0)

    def protobuf(messages: Sequence[bytes]) -> None:
        for message in messages:
            reports = SubmitReportsRequest.FromString(message).reports
            prepare(publication, UnreadReports(reports), 0)

    found = []
    for size in SIZES:
        messages = [Requests(campaign, size).draw()] * (REPORTS // size)
        contestants = {"protobuf": partial(protobuf, messages), "ours": partial(ours, messages)}
        scale = 1e6 / (size * len(messages))
        title = f"reading requests of {size:,} reports"
        found += show(title, "µs/report", scale, medians(contestants), "protobuf")
    return found
