"""What somebody brings to an experiment: mechanisms in a file, people in a table, or both."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import cast

import numpy as np

from geoveil.analyst.planner import Reports
from geoveil.audit import mechanisms_in
from geoveil.gp import ParameterError
from geoveil.simulation.comparison import Setting
from geoveil.simulation.experiments.contestants import Array, Contestant
from geoveil.simulation.experiments.rows import OWN
from geoveil.simulation.populations import Population, household_incomes


@dataclass(frozen=True, slots=True)
class OwnInput:
    """Files of one's own; without any, the experiment is the paper's.

    Args:
        module: a Python file of mechanisms, as `geoveil audit --module` takes it; it is run.
        data: a table of people, CSV or Parquet.
        column: of it, what they hold.
        weight: of it, how many people a row stands for; 1 each if None.

    Raises:
        ParameterError: if there is a table without a column, or a column without a table.
    """

    module: Path | None = None
    data: Path | None = None
    column: str | None = None
    weight: str | None = None

    def __post_init__(self) -> None:
        if (self.data is None) != (self.column is None):
            raise ParameterError("column", self.column, "given together with a table")

    @property
    def fingerprint(self) -> str:
        """A hash of the files, in hexadecimal; empty without any."""
        files = [file for file in (self.module, self.data) if file is not None]
        if not files:
            return ""
        digest = hashlib.sha256(f"{self.column} {self.weight}".encode())
        for file in files:
            digest.update(hashlib.sha256(file.read_bytes()).digest())
        return digest.hexdigest()[:16]


AS_PUBLISHED = OwnInput()
"""Nothing of one's own."""


@lru_cache(maxsize=4)
def own_contestants(given: OwnInput) -> Mapping[str, Contestant]:
    """Return the mechanisms of the file, asked the question that geoveil's are asked.

    Raises:
        ParameterError: if the file can't be run, or has none.
    """
    if given.module is None:
        return {}

    def build(setting: Setting, name: str) -> Reports:
        mechanism = mechanisms[name](setting.soft, setting.privacy)
        if not all(hasattr(mechanism, part) for part in ("mean", "variance", "simulate")):
            raise ParameterError("module", name, "a mechanism with mean, variance and simulate")
        return cast(Reports, mechanism)

    mechanisms = mechanisms_in(given.module)
    return {name: Contestant(OWN, partial(build, name=name)) for name in mechanisms}


@lru_cache(maxsize=4)
def distinct_values(given: OwnInput) -> tuple[Array, Array]:
    """Return what people hold and the share of them at each value, which add to 1.

    That is the table's, or household incomes: 12,899 numbers stand for 141,199 rows there, as they
    are published rounded.

    Raises:
        PopulationFileError: if the table can't be read.
    """
    people = household_incomes() if given.data is None else _read(given)
    values, row = np.unique(people.values, return_inverse=True)
    shares = np.bincount(row, people.weights)
    return values, shares / shares.sum()


def _read(given: OwnInput) -> Population:
    assert given.data is not None
    assert given.column is not None
    parquet = given.data.suffix == ".parquet"
    read = Population.from_parquet if parquet else Population.from_csv
    return read(given.data, values=[given.column], weights=given.weight)
