"""Write the vectors, or print more tuples."""

import json
from argparse import ArgumentParser
from pathlib import Path

from tools import vectors
from tools.vectors.categories import category_tuples
from tools.vectors.chance import tuples
from tools.vectors.epochs import nested_tuples
from tools.vectors.forms import form_tuples, hostile_tuples

parser = ArgumentParser(prog="python -m tools.vectors", description=__doc__)
kept = Path(__file__).parents[2] / "proto" / "vectors"
parser.add_argument("folder", nargs="?", type=Path, default=kept, help="where they are written")
parser.add_argument("--stream", nargs=2, type=int, metavar=("N", "SEED"), help="print N tuples")
MAKERS = {
    "epochs": nested_tuples,
    "categories": category_tuples,
    "forms": form_tuples,
    "hostile": hostile_tuples,
}
for name in MAKERS:
    more = ", and sequences of them" if name == "epochs" else ""
    parser.add_argument(f"--{name}", action="store_true", help=f"those of {name}{more}")
asked = parser.parse_args()
if asked.stream:
    maker = next((MAKERS[name] for name in MAKERS if getattr(asked, name)), tuples)
    for found in maker(*asked.stream):
        print(json.dumps(found))
else:
    for name in vectors.MAKERS:
        (asked.folder / f"{name}.json").write_text(vectors.text(name), encoding="utf-8")
