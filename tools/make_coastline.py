"""Write the coastline for maps, from Natural Earth's land at 1:50 million.

    npm pack world-atlas@2.0.2 && tar xzf world-atlas-2.0.2.tgz
    .venv/bin/python tools/make_coastline.py package/land-50m.json

Lines are simplified to 0.02 degrees, rounded to 0.01, and written as steps east and north from
point to point; cuts along the antimeridian and at the south pole are omitted, as they are not
coasts.
"""

import json
import sys
from pathlib import Path

import numpy as np

TARGET = Path(__file__).parents[1] / "campaign/geoveil/campaign/data/coastline.json"
TOLERANCE_DEG = 0.02
PER_DEGREE = 100


def main(source: str) -> None:
    """Read a file of world-atlas and write the bundled file."""
    import shapely

    topology = json.loads(Path(source).read_text())
    scale, translate = (topology["transform"][key] for key in ("scale", "translate"))
    lines = []
    for arc in topology["arcs"]:
        places = np.cumsum(np.array(arc), axis=0) * scale + translate
        artificial = (np.abs(places[:, 0]) > 179.99) | (places[:, 1] < -89.9)
        across = np.abs(np.diff(places[:, 0])) > 180
        cuts = np.flatnonzero(artificial[1:] & artificial[:-1] | across) + 1
        for part in np.split(places, cuts):
            if len(part) > 1:
                simple = shapely.LineString(part).simplify(TOLERANCE_DEG)
                whole = np.rint(np.asarray(simple.coords) * PER_DEGREE).astype(np.int64)
                moves = np.r_[True, (np.diff(whole, axis=0) != 0).any(axis=1)]
                if moves.sum() > 1:
                    lines.append(whole[moves])
    written = [np.diff(line, axis=0, prepend=[[0, 0]]).ravel().tolist() for line in lines]
    rows = ",\n".join(json.dumps(one, separators=(",", ":")) for one in written)
    TARGET.write_text(f'{{"per_degree":{PER_DEGREE},"lines":[\n{rows}\n]}}\n')
    places = sum(map(len, lines))
    print(f"{len(lines):,} lines, {places:,} places, {TARGET.stat().st_size:,} bytes")


if __name__ == "__main__":
    main(*sys.argv[1:])
