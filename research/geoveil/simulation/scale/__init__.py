"""Campaigns of a billion devices and bulk estimates, bit for bit the same with and without Dask."""

from geoveil.simulation.computing import ClusterError, Computer, computer, in_this_process
from geoveil.simulation.scale.exports import (
    ExportedReports,
    ExportError,
    export_reports,
    exported,
    write_reports,
)
from geoveil.simulation.scale.simulated import (
    SimulatedCampaign,
    estimate_record,
    simulated,
    threshold_asked,
)
from geoveil.simulation.scale.work import BlockedWork, FinishedFileError, Sums, total

__all__ = [
    "BlockedWork",
    "ClusterError",
    "Computer",
    "ExportError",
    "ExportedReports",
    "FinishedFileError",
    "SimulatedCampaign",
    "Sums",
    "computer",
    "estimate_record",
    "export_reports",
    "exported",
    "in_this_process",
    "simulated",
    "threshold_asked",
    "total",
    "write_reports",
]
