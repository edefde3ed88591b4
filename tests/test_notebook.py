"""The notebook runs from its first cell to its last, and what it finds is near what it asked."""

import json
from pathlib import Path

import numpy as np
import pytest

NOTEBOOK = Path(__file__).parents[1] / "examples" / "survey.ipynb"


@pytest.mark.deep
def test_the_notebook_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Quantiles and shares within 6 standard errors: fails by chance less than once in 10⁷."""
    import matplotlib

    matplotlib.use("Agg")
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    names: dict[str, object] = {}
    for number, cell in enumerate(cells):
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), f"cell {number}", "exec"), names)
    people: object = names["people"]
    values, weights = people.values, people.weights / people.weights.sum()  # type: ignore[attr-defined]
    order = np.argsort(values)
    below = np.cumsum(weights[order])
    table = names["quartiles"].to_pandas()  # type: ignore[attr-defined]
    for row in table.itertuples():
        true = values[order][np.searchsorted(below, row.level)]
        assert abs(row.estimate - true) < 6 * row.standard_error + 1_500  # softness
    (answer,) = names["found"].estimates  # type: ignore[attr-defined]
    assert answer.n == 8_000
    assert abs(answer.hard.value - weights[values > 100_000].sum()) < 6 * answer.standard_error
