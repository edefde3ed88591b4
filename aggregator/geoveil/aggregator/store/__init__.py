"""Where campaigns and reports are kept: one contract, one file per database."""

from geoveil.aggregator.store.base import (
    CampaignPage,
    CampaignRecord,
    Outcome,
    Store,
    StoredAnswers,
    Submission,
)
from geoveil.aggregator.store.opening import open_store
from geoveil.aggregator.store.sqlite import SQLiteStore

__all__ = [
    "CampaignPage",
    "CampaignRecord",
    "Outcome",
    "SQLiteStore",
    "Store",
    "StoredAnswers",
    "Submission",
    "open_store",
]
