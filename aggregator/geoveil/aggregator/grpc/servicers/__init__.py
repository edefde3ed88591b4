"""From wire messages to the service and back; no decisions here."""

from geoveil.aggregator.grpc.servicers.analyst import AnalystServicer
from geoveil.aggregator.grpc.servicers.collector import CollectorServicer, add_collector

__all__ = ["AnalystServicer", "CollectorServicer", "add_collector"]
