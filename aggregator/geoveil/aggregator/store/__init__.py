"""Storage of campaigns and reports: one contract, one module per database."""

from geoveil.aggregator.store.base import (
    CampaignPage,
    CampaignRecord,
    Extent,
    Outcome,
    Progress,
    Store,
    StoredAnswers,
    StoredSums,
    Submission,
)
from geoveil.aggregator.store.opening import open_store
from geoveil.aggregator.store.sqlite import SQLiteStore

__all__ = [
    "CampaignPage",
    "CampaignRecord",
    "Extent",
    "Outcome",
    "Progress",
    "SQLiteStore",
    "Store",
    "StoredAnswers",
    "StoredSums",
    "Submission",
    "open_store",
]
