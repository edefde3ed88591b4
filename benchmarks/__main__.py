"""python -m benchmarks: run every benchmark and print one table each."""

import argparse

from benchmarks import (
    console,
    device,
    first_planner,
    handshake,
    host,
    hostile,
    intervals,
    joint,
    kde,
    memory,
    oneway,
    planning,
    plans,
    points,
    reading,
    release,
    scale,
    selection,
    serve_load,
    simulate,
    startup,
    store,
    submit,
    web,
)

TABLES = {
    "simulate": simulate.table,
    "release": release.table,
    "scale": scale.table,
    "startup": startup.table,
    "host": host.table,
    "device": device.table,
    "store": store.table,
    "submit": submit.table,
    "serve_load": serve_load.table,
    "reading": reading.table,
    "handshake": handshake.table,
    "memory": memory.table,
    "points": points.table,
    "hostile": hostile.table,
    "oneway": oneway.table,
    "planning": planning.table,
    "kde": kde.table,
    "selection": selection.table,
    "intervals": intervals.table,
    "joint": joint.table,
    "plans": plans.table,
    "first_planner": first_planner.table,
    "web": web.table,
    "console": console.table,
}

QUICK = {
    "intervals": intervals.table,
    "joint": joint.table,
    "plans": plans.table,
    "first_planner": first_planner.table,
}
"""Those that can be had with less."""

parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
parser.add_argument("names", nargs="*", help=f"some of {', '.join(TABLES)}; all by default")
parser.add_argument(
    "--quick", action="store_true", help=f"less of {', '.join(sorted(QUICK))}: about a tenth"
)
asked = parser.parse_args()
for name in asked.names or TABLES:
    if name not in TABLES:
        parser.error(f"no benchmark is called {name!r}")
    if name in QUICK:
        QUICK[name](quick=asked.quick)
    else:
        TABLES[name]()
