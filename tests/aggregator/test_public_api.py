"""Test that the domain and the store of `geoveil.aggregator` import no gRPC."""

import subprocess
import sys
from pathlib import Path

import pytest

import geoveil.aggregator


@pytest.mark.deep(keep=0)
def test_domain_modules_do_not_import_grpc():
    package = Path(geoveil.aggregator.__file__).parent
    found = [f for folder in ("domain", "store") for f in (package / folder).glob("*.py")]
    modules = [f"{f.parent.name}.{f.stem}" for f in found if f.stem != "__init__"]
    assert "domain.service" in modules
    modules.append("ops.settings")
    # The package itself exports the server, so its modules are loaded without it.
    program = f"""
import importlib, sys, types
import geoveil.gp
package = types.ModuleType("geoveil.aggregator")
package.__path__ = {list(geoveil.aggregator.__path__)!r}
sys.modules["geoveil.aggregator"] = package
for name in {modules!r}:
    importlib.import_module("geoveil.aggregator." + name)
assert "grpc" not in sys.modules
"""
    path = f"import sys; sys.path[:] = {sys.path!r}\n"
    subprocess.run([sys.executable, "-c", path + program], check=True)
