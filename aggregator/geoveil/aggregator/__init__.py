"""The aggregator: collects reports over gRPC, counts each once, and answers with estimates."""

from geoveil.aggregator.config import Settings
from geoveil.aggregator.errors import CATALOGUE, Code, ServiceError
from geoveil.aggregator.server import Aggregator, run, serve
from geoveil.aggregator.service import Service
from geoveil.aggregator.servicers import AnalystServicer, CollectorServicer
from geoveil.aggregator.store import SQLiteStore, Store
from geoveil.aggregator.writer import Writer
from geoveil.gp.version import __version__ as __version__

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
