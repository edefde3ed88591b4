"""Statistics of a form in the clear are those of svy, a package for surveys, with their errors."""

import numpy as np
import polars as pl
import pytest
import svy

from geoveil.analyst import CrossTable, MeanBy, Shares

from .test_regression import asked, people

N = 500


@pytest.mark.parametrize("weighted", [False, True])
def test_shares_and_means_of_groups_are_those_of_svy(weighted):
    values = people(7, N)
    rents, works = (values[name].astype(str) for name in ("rents", "works"))
    weights = np.random.default_rng(9).lognormal(0, 0.7, N) if weighted else np.ones(N)
    columns = {"rents": rents, "works": works, "both": np.char.add(rents, works), "weight": weights}
    frame = pl.DataFrame(columns | {"hours": values["hours"]})
    theirs = svy.Sample(frame, svy.Design(wgt="weight")).estimation
    reports = asked(values, clear=True)
    for statistic, estimate in (
        (Shares("rents"), theirs.prop("rents")),
        (CrossTable("rents", "works"), theirs.prop("both")),
        (MeanBy("hours", "rents"), theirs.mean("hours", by="rents")),
    ):
        ours = reports.ask(statistic, weights=weights).rows()
        rows = [(row["estimate"], row["standard_error"]) for row in ours]
        assert np.allclose(rows, estimate.to_polars().select("est", "se"), rtol=1e-9, atol=0)
