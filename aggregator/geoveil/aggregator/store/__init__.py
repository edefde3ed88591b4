"""Storage of campaigns and reports: one contract, one module per database."""

from geoveil.aggregator.domain.reports import PackedReport, pack, unpack
from geoveil.aggregator.domain.store_contract import (
    CampaignPage,
    CampaignRecord,
    Extent,
    Outcome,
    Progress,
    Store,
    StoredAnswers,
    StoredSums,
    Submission,
    classify,
)
from geoveil.aggregator.store.opening import open_store
from geoveil.aggregator.store.sqlite import SQLiteStore

__all__ = [
    "CampaignPage",
    "CampaignRecord",
    "Extent",
    "Outcome",
    "PackedReport",
    "Progress",
    "SQLiteStore",
    "Store",
    "StoredAnswers",
    "StoredSums",
    "Submission",
    "classify",
    "open_store",
    "pack",
    "unpack",
]
