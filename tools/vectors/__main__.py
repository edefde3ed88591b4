"""Write the vectors, or print more tuples."""

import json
from argparse import ArgumentParser
from pathlib import Path

from tools import vectors
from tools.vectors.chance import tuples

parser = ArgumentParser(prog="python -m tools.vectors", description=__doc__)
kept = Path(__file__).parents[2] / "proto" / "vectors"
parser.add_argument("folder", nargs="?", type=Path, default=kept, help="where they are written")
parser.add_argument("--stream", nargs=2, type=int, metavar=("N", "SEED"), help="print N tuples")
asked = parser.parse_args()
if asked.stream:
    for found in tuples(*asked.stream):
        print(json.dumps(found))
else:
    for name in vectors.MAKERS:
        (asked.folder / f"{name}.json").write_text(vectors.text(name), encoding="utf-8")
