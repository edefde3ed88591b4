"""A user's input to an experiment: mechanisms in a file, people in a table, a question."""

import hashlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import cast

import numpy as np

from geoveil.analyst import ReportLaw
from geoveil.audit import MakeMechanism, checked, mechanisms_in, source_files
from geoveil.campaign import MECHANISMS, MechanismSpec
from geoveil.gp import GeoPrivacy, ParameterError, Query, validation
from geoveil.simulation.people_files import FORMATS, GEOPACKAGE
from geoveil.simulation.populations import Array, Population, household_incomes

MakeReports = Callable[[Query, GeoPrivacy], ReportLaw]
"""A function of a query and a guarantee that makes a mechanism."""


@dataclass(frozen=True)
class OwnInput:
    """A user's files, which add mechanisms to the paper's experiment and replace its data.

    Args:
        module: a Python file of mechanisms, as for `geoveil audit --module`; it is run.
        data: a file of people, as for `Population.from_file`.
        columns: the file's columns of values; none for a GeoPackage.
        weight: the column with each row's number of people; None for 1 each.
        thresholds: the questions' thresholds, in the unit of the values.
        per: 1/ε, in the same unit.
        ends: the public range of interest, in the same unit.

    Raises:
        ParameterError: if a column comes without a file, or a number is out of range.
    """

    module: Path | None = None
    data: Path | None = None
    columns: tuple[str, ...] = ()
    weight: str | None = None
    thresholds: tuple[float, ...] = ()
    per: float | None = None
    ends: tuple[float, float] | None = None
    mechanisms: tuple[str, ...] = ()
    """Further mechanisms, by their names in campaigns."""

    def __post_init__(self) -> None:
        if self.data is None and self.columns:
            raise ParameterError("column", self.columns[0], "given together with a table")
        if self.data is not None and self.data.suffix not in FORMATS:
            raise ParameterError("data", str(self.data), f"a file: {', '.join(FORMATS)}")
        if self.data is not None and not self.columns and self.data.suffix != GEOPACKAGE:
            raise ParameterError(
                "column", None, "given: the column of the table that is asked about"
            )
        for threshold in self.thresholds:
            validation.real("threshold", threshold)
        if self.per is not None:
            validation.positive("per", self.per)
        if self.ends is not None:
            low, high = (validation.real("range", end) for end in self.ends)
            if low >= high:
                raise ParameterError("range", self.ends, "two numbers, the lesser one first")
        for words in self.mechanisms:
            if not isinstance(MECHANISMS.parse(words), MechanismSpec):
                raise ParameterError("mechanism", words, "one that answers questions")

    def question(self, count: int) -> tuple[tuple[float, ...], float] | None:
        """Return thresholds and 1/ε; None for the experiment's own.

        Raises:
            ParameterError: if only one of them is given, or a table comes without both.
        """
        if not self.thresholds and self.per is None and self.data is None:
            return None
        if len(self.thresholds) != count:
            expected = ("once", "twice")[count - 1]
            raise ParameterError("threshold", [*self.thresholds], f"given {expected}, with per")
        if self.per is None:
            raise ParameterError("per", None, "given together with threshold")
        return self.thresholds, self.per

    @cached_property
    def key(self) -> str:
        """A hash of the question and all files' content; "as published" without any."""
        if self == OwnInput():
            return "as published"
        identity = (
            self.columns,
            self.weight,
            self.thresholds,
            self.per,
            self.ends,
            self.mechanisms,
        )
        digest = hashlib.sha256(repr(identity).encode())
        files = [] if self.module is None else source_files(self.module)
        for file in (*files, self.data):
            digest.update(hashlib.sha256(b"" if file is None else file.read_bytes()).digest())
        return digest.hexdigest()[:16]

    def people(self, dimension: int) -> Population | None:
        """Return the people of the file; None without a file.

        Raises:
            ParameterError: if people have more or fewer than `dimension` numbers.
            TableFileError: if the file can't be read.
        """
        if self.data is None:
            return None
        people = Population.from_file(self.data, values=self.columns, weights=self.weight)
        if people.dimension != dimension:
            expected = ("one column", "two columns, or none for a GeoPackage")[dimension - 1]
            raise ParameterError("column", [*self.columns], expected)
        return people


AS_PUBLISHED = OwnInput()
"""No input of the user."""


def own_mechanisms(module: Path | None, known: Collection[str]) -> Mapping[str, MakeReports]:
    """Return a file's functions by name; an empty mapping without a file.

    Raises:
        ParameterError: if the file can't be run, has no mechanism, or takes a name in `known`.
    """
    functions = {} if module is None else in_file(module)
    if taken := sorted(set(known) & functions.keys()):
        raise ParameterError("module", taken[0], "another name")
    return {name: partial(_made, name=name, make=make) for name, make in functions.items()}


in_file = lru_cache(maxsize=4)(mechanisms_in)


def _made(query: Query, privacy: GeoPrivacy, *, name: str, make: MakeMechanism) -> ReportLaw:
    made = checked(name, make(query, privacy), query, ("mean", "variance", "simulate"))
    return cast(ReportLaw, made)


@lru_cache(maxsize=4)
def distinct_values(given: OwnInput) -> tuple[Array, Array]:
    """Return the distinct values of the table's people and their shares, which sum to 1.

    Without a table these are household incomes: 12,899 rounded numbers from 141,199 rows.

    Raises:
        TableFileError: if the table can't be read.
    """
    people = given.people(1) or household_incomes()
    values, row = np.unique(people.values, return_inverse=True)
    shares = np.bincount(row, people.weights)
    return values, shares / shares.sum()
