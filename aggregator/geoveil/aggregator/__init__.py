"""The aggregator: collects reports over gRPC, counts each once, and serves estimates."""

from geoveil.gp import __version__ as __version__, needed_for as _needed_for

with _needed_for("a server"):
    from geoveil.aggregator.domain.errors import Code, ServiceError
    from geoveil.aggregator.domain.service import Service
    from geoveil.aggregator.domain.threads import Writer
    from geoveil.aggregator.grpc.connections import descriptors_for as descriptors_for
    from geoveil.aggregator.grpc.server import (
        Aggregator,
        check_files as check_files,
        run,
        serve,
    )
    from geoveil.aggregator.grpc.servicers import AnalystServicer, CollectorServicer
    from geoveil.aggregator.ops.authority import Authority as Authority, Issued as Issued
    from geoveil.aggregator.ops.logs import (
        configure as configure,
        failed as failed,
        log_what_nobody_catches as log_what_nobody_catches,
        native_lines_logged as native_lines_logged,
    )
    from geoveil.aggregator.ops.settings import Settings
    from geoveil.aggregator.ops.settings_sources import TYPES as TYPES, load as load
    from geoveil.aggregator.ops.tokens import Scope as Scope, TokenFile as TokenFile
    from geoveil.aggregator.store import SQLiteStore, Store
    from geoveil.aggregator.store.maintenance import (
        back_up_database as back_up_database,
        check_database as check_database,
    )
    from geoveil.aggregator.store.opening import open_store as open_store

__all__ = [
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
