"""The aggregator: collects reports over gRPC, counts each once, and answers with estimates."""

from geoveil.gp.extras import needed_for as _needed_for
from geoveil.gp.version import __version__ as __version__

with _needed_for("a server"):
    from geoveil.aggregator.domain.errors import CATALOGUE, Code, ServiceError
    from geoveil.aggregator.domain.service import Service
    from geoveil.aggregator.grpc.server import Aggregator, run, serve
    from geoveil.aggregator.grpc.servicers import AnalystServicer, CollectorServicer
    from geoveil.aggregator.ops.settings import Settings
    from geoveil.aggregator.store import SQLiteStore, Store
    from geoveil.aggregator.store.writer import Writer

__all__ = [
    "CATALOGUE",
    "Aggregator",
    "AnalystServicer",
    "Code",
    "CollectorServicer",
    "SQLiteStore",
    "Service",
    "ServiceError",
    "Settings",
    "Store",
    "Writer",
    "run",
    "serve",
]
