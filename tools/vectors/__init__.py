"""Test vectors for devices in other languages: `python -m tools.vectors [FOLDER]`.

It writes proto/vectors, which is the same each time. `python -m tools.vectors --stream N SEED`
prints N more tuples of a campaign, a point and bits with their answers, a line each, without end of
new ones as the seed changes; with `--epochs` of readings, with `--categories` or `--forms` of
these, instead. What the fields are is said by docs/protocol.md.
"""

import json
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from tools.vectors.campaigns import campaign_vectors
from tools.vectors.categories import category_vectors
from tools.vectors.consent import consent_vectors
from tools.vectors.epochs import epoch_vectors
from tools.vectors.forms import form_vectors
from tools.vectors.ledgers import ledger_vectors
from tools.vectors.logarithms import logarithm_vectors
from tools.vectors.numbers import number_vectors
from tools.vectors.places import projection_vectors
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
"""Makes the vectors of each file, by its name."""


def text(name: str) -> str:
    """Return the file of a name as it is written: an item a line."""
    items = MAKERS[name]()
    key = "ledgers" if name == "ledger" else name
    lines = ",\n".join(json.dumps(item, separators=(",", ":")) for item in items)
    return f'{{"version":{VERSION},"{key}":[\n{lines}\n]}}\n'
