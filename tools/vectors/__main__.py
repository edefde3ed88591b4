"""Write the vectors, or print more tuples."""

import json
import sys
from pathlib import Path

from tools.vectors import MAKERS, text
from tools.vectors.chance import tuples

if sys.argv[1:2] == ["--stream"]:
    for found in tuples(int(sys.argv[2]), int(sys.argv[3])):
        print(json.dumps(found))
else:
    vectors = Path(__file__).parents[2] / "proto" / "vectors"
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else vectors
    for name in MAKERS:
        (folder / f"{name}.json").write_text(text(name), encoding="utf-8")
