"""From wire messages to the service and back; no decisions here."""

from geoveil.aggregator.servicers.analyst import AnalystServicer
from geoveil.aggregator.servicers.collector import CollectorServicer

__all__ = ["AnalystServicer", "CollectorServicer"]
