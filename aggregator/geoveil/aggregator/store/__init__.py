"""Where campaigns and reports are kept: one contract, one file per database."""

from geoveil.aggregator.store.base import CampaignRecord, Outcome, Store, Submission
from geoveil.aggregator.store.sqlite import SQLiteStore

__all__ = ["CampaignRecord", "Outcome", "SQLiteStore", "Store", "Submission"]
