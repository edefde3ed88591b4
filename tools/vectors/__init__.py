"""Test vectors for devices in other languages: `python -m tools.vectors [FOLDER]`.

It writes proto/vectors, always with the same contents. `python -m tools.vectors --stream N SEED`
prints N more tuples of a campaign, a point and bits with their answers, one per line, and new ones
for every seed; with `--epochs`, `--categories` or `--forms`, it prints tuples of readings,
categories or forms instead. docs/protocol.md explains the fields.
"""

import json
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from tools.vectors.campaigns import campaign_vectors
from tools.vectors.categories import category_vectors
from tools.vectors.consent import consent_vectors
from tools.vectors.coordinates import logarithm_vectors, projection_vectors
from tools.vectors.epochs import epoch_vectors
from tools.vectors.forms import form_vectors
from tools.vectors.ledgers import ledger_vectors
from tools.vectors.numbers import number_vectors
from tools.vectors.relay import relay_vectors
from tools.vectors.releases import release_vectors

VERSION = 3
MAKERS: Mapping[str, Callable[[], list[dict[str, Any]]]] = MappingProxyType(
    {
        "release": release_vectors,
        "campaigns": campaign_vectors,
        "ledger": ledger_vectors,
        "epochs": epoch_vectors,
        "projection": projection_vectors,
        "logarithms": logarithm_vectors,
        "consent": consent_vectors,
        "numbers": number_vectors,
        "categories": category_vectors,
        "forms": form_vectors,
        "relay": relay_vectors,
    }
)
"""Name of a file → function that makes its vectors."""


def text(name: str) -> str:
    """Return the contents of a file by its name, one item per line."""
    items = MAKERS[name]()
    key = "ledgers" if name == "ledger" else name
    lines = ",\n".join(json.dumps(item, separators=(",", ":")) for item in items)
    return f'{{"version":{VERSION},"{key}":[\n{lines}\n]}}\n'
