"""The ledger of reproductions: each figure and table of five papers, beside what geoveil gets."""

from collections.abc import Mapping
from types import MappingProxyType

from geoveil.simulation.ledger import (
    dampening,
    geo_privacy,
    noisy_max,
    permute_and_flip,
    transmission,
)
from geoveil.simulation.ledger.page import ledger_page
from geoveil.simulation.ledger.reproduction import (
    AGREES,
    DIFFERS,
    MISSING,
    Reproduced,
    Reproduction,
)

_PAPERS = (geo_privacy, permute_and_flip, dampening, noisy_max, transmission)
LEDGER: Mapping[str, Reproduction] = MappingProxyType(
    {row.name: row for paper in _PAPERS for row in paper.ROWS}
)
"""Name → figure or table."""

__all__ = [
    "AGREES",
    "DIFFERS",
    "LEDGER",
    "MISSING",
    "Reproduced",
    "Reproduction",
    "ledger_page",
]
