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
        data: a file of people, as `Population.from_file` takes it.
        columns: of it, what they hold; none of a GeoPackage.
        weight: of it, how many people a row stands for; 1 each if None.

    Raises:
        ParameterError: if there is a column without a file.
    """

    module: Path | None = None
    data: Path | None = None
    columns: tuple[str, ...] = ()
    weight: str | None = None

    def __post_init__(self) -> None:
        if self.data is None and self.columns:
            raise ParameterError("column", self.columns[0], "given together with a table")

    @property
    def key(self) -> str:
        """Names the files' contents and columns; "as published" without any."""
        files = [file for file in (self.module, self.data) if file is not None]
        if not files:
            return "as published"
        digest = hashlib.sha256(f"{self.columns} {self.weight}".encode())
        for file in files:
            digest.update(hashlib.sha256(file.read_bytes()).digest())
        return digest.hexdigest()[:16]

    def people(self, dimension: int) -> Population | None:
        """Return the people of the file; None without one.

        Args:
            dimension: how many numbers each of them has to hold, 1 or 2.

        Raises:
            ParameterError: if they hold more or fewer.
            TableFileError: if the file can't be read.
        """
        if self.data is None:
            return None
        people = Population.from_file(self.data, values=self.columns, weights=self.weight)
        if people.dimension != dimension:
            expected = ("one column", "two columns, or none of a GeoPackage")[dimension - 1]
            raise ParameterError("column", [*self.columns], expected)
        return people


AS_PUBLISHED = OwnInput()
"""Nothing of one's own."""


def with_own(known: Mapping[str, Contestant], given: OwnInput) -> Mapping[str, Contestant]:
    """Return contestants and those of a file, which are asked the question that geoveil's are.

    Args:
        known: by name.
        given: with a file, or none.

    Raises:
        ParameterError: if the file can't be run, has no mechanism, or takes a name that is known.
    """
    own = _own(given.module)
    if taken := sorted(known.keys() & own.keys()):
        raise ParameterError("module", taken[0], "another name")
    return {**known, **own}


@lru_cache(maxsize=4)
def _own(module: Path | None) -> Mapping[str, Contestant]:
    if module is None:
        return {}

    def build(setting: Setting, name: str) -> Reports:
        mechanism = mechanisms[name](setting.soft, setting.privacy)
        if not all(hasattr(mechanism, part) for part in ("mean", "variance", "simulate")):
            raise ParameterError("module", name, "a mechanism with mean, variance and simulate")
        return cast(Reports, mechanism)

    mechanisms = mechanisms_in(module)
    return {name: Contestant(OWN, partial(build, name=name)) for name in mechanisms}


@lru_cache(maxsize=4)
def distinct_values(given: OwnInput) -> tuple[Array, Array]:
    """Return what people hold and the share of them at each value, which add to 1.

    That is the table's, or household incomes: 12,899 numbers stand for 141,199 rows there, as they
    are published rounded.

    Raises:
        TableFileError: if the table can't be read.
    """
    people = given.people(1) or household_incomes()
    values, row = np.unique(people.values, return_inverse=True)
    shares = np.bincount(row, people.weights)
    return values, shares / shares.sum()
