"""Test that the notebook runs completely, and that its estimates are near the truth."""

import json
import re
from pathlib import Path

import pytest

NOTEBOOK = Path(__file__).parents[1] / "examples" / "survey.ipynb"


def sources() -> list[str]:
    """Return the code cells."""
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


def test_an_analyst_needs_no_device_for_a_rehearsal() -> None:
    lines = [line for source in sources() for line in source.splitlines() if line.strip()]
    assert len(lines) <= 40
    of_devices = re.compile(r"import grpc|geoveil\.(proto|client)|from geoveil import .*client")
    assert not [line for line in lines if of_devices.search(line)]


@pytest.mark.deep
def test_the_notebook_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Quantiles and shares within 6 standard errors: fails by chance less than once in 10⁷."""
    import matplotlib

    matplotlib.use("Agg")
    names: dict[str, object] = {}
    for number, source in enumerate(sources()):
        exec(compile(source, f"cell {number}", "exec"), names)
    incomes = names["df"]["income"]  # type: ignore[index]
    table = names["quartiles"].to_pandas()  # type: ignore[attr-defined]
    for row in table.itertuples():
        true = incomes.quantile(row.level)
        assert abs(row.estimate - true) < 6 * row.standard_error + 1_500  # softness
    (answer,) = names["found"].estimates  # type: ignore[attr-defined]
    assert answer.n == len(incomes)
    assert abs(answer.hard.value - (incomes > 100_000).mean()) < 6 * answer.standard_error
