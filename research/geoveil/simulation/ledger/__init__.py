"""The ledger of reproductions: every figure and table of five papers, with geoveil's results."""

import tomllib
from collections.abc import Mapping
from importlib.resources import files
from types import MappingProxyType

from geoveil.simulation.ledger import (
    geo_privacy,
    local_dampening,
    percentiles_and_trees,
    permute_and_flip,
    significant_variant,
)
from geoveil.simulation.ledger.given import check_data
from geoveil.simulation.ledger.reproduction import (
    AGREES,
    CANT_TELL,
    DIFFERS,
    HEADERS,
    UNTESTED,
    VERDICTS,
    Reproduction,
    ledger_page,
    line_of,
    summary_of,
)
from geoveil.simulation.selection.experiment import Options

_PAPERS = (
    geo_privacy, permute_and_flip, local_dampening, percentiles_and_trees, significant_variant,
)  # fmt: skip
_NUMBERS = {name: compute for paper in _PAPERS for name, compute in paper.NUMBERS.items()}
_TEXTS = files("geoveil.simulation").joinpath("data", "reproductions.toml")
LEDGER: Mapping[str, Reproduction] = MappingProxyType(
    {
        name: Reproduction(name=name, compute=_NUMBERS.get(name), **texts)
        for name, texts in tomllib.loads(_TEXTS.read_text(encoding="utf-8")).items()
    }
)
"""Name → figure or table: its texts are data, and its paper's module computes the numbers."""


def reproduce(name: str, options: Options) -> Reproduction:
    """Recompute a figure or table of the ledger; worker processes call this function."""
    return LEDGER[name].run(options)


__all__ = [
    "AGREES",
    "CANT_TELL",
    "DIFFERS",
    "HEADERS",
    "LEDGER",
    "UNTESTED",
    "VERDICTS",
    "Reproduction",
    "check_data",
    "ledger_page",
    "line_of",
    "reproduce",
    "summary_of",
]
