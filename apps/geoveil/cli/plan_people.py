"""The people of a plan: from options, or from answers at a terminal."""

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import typer

from geoveil.analyst import Heap, PublicPrior, pilot_prior, reports_of
from geoveil.cli.connection import Connection, analyst_at
from geoveil.cli.console import err
from geoveil.gp import GeoVeilError, ParameterError
from geoveil.simulation.people_files import FORMATS
from geoveil.simulation.priors import KNOWN, public_prior

_PROMPTS: Mapping[str, str] = MappingProxyType(
    {
        "participants": "How many people will take part?",
        "prior": f"What is publicly known of them ({KNOWN})?",
        "unit": "In which unit are the values?",
        "epsilon": "ε: how much may a report tell of two values a distance apart (usually 1)?",
        "per": "Which distance (by ratio: factor) should nobody be able to tell, in that unit?",
    }
)
_COLUMNS = "Which column of the file holds the values (of places: longitude, latitude)?"


def at_terminal() -> bool:
    """Return whether a person can answer at the terminal."""
    return sys.stdin.isatty()


def answer(name: str, given: Any, right: Callable[[str, Any], Any]) -> Any:
    """Return an option's value; at a terminal, ask for it if it is missing."""
    if given is not None:
        return given
    if not at_terminal():
        raise ParameterError(name, None, "given")
    kind = {"participants": int, "epsilon": float, "per": float}.get(name, str)

    def read(said: str) -> Any:
        try:
            typed = kind(said)
        except ValueError:
            raise ParameterError(name, said, "a number") from None
        return right(name, typed)

    return until_right(_PROMPTS[name], read)


def until_right(question: str, read: Callable[[str], Any]) -> Any:
    """Ask until the answer can be read."""
    while True:
        try:
            return read(typer.prompt(question, err=True).strip())
        except GeoVeilError as error:
            err.tell(str(error))


def source_of(
    prior: str | None,
    columns: Sequence[str] | None,
    weights: str | None,
    heap: Sequence[str] | None,
    scenario: Sequence[str] | None,
    scale: float,
    connection: Connection,
) -> PublicPrior:
    """Return the prior with its scenarios."""
    heaps = tuple(map(Heap.parse, heap or ()))
    text: str = answer("prior", prior, lambda _, said: _of_people(said))
    if prior is None and _is_of_rows(text) and columns is None:
        columns = until_right(_COLUMNS, lambda said: _columns(text, said))
    doubts = [_named(of) for of in scenario or ()]
    any_rows = any(map(_is_of_rows, (text, *(other for _, other in doubts))))

    def known(of: str) -> PublicPrior:
        """Return a public prior, or a pilot from a campaign's reports at a server."""
        kind, _, pilot = of.partition(":")
        if kind == "pilot" and pilot and Path(pilot).suffix not in FORMATS:
            with analyst_at(connection) as analyst:
                return pilot_prior(reports_of(analyst.export(pilot)), heaps=heaps)
        # Without a file of rows, columns are given to the prior, which refuses them.
        said = (tuple(columns or ()), weights) if _is_of_rows(of) or not any_rows else ((), None)
        return public_prior(of, *said, heaps)

    source = known(text)
    return source.doubted({name: _scenario(name, of, known) for name, of in doubts}, scale)


def _is_of_rows(prior: str) -> bool:
    """Return whether a prior is a file of rows, which has columns."""
    return Path(prior).suffix in FORMATS and ":" not in prior


def _named(scenario: str) -> tuple[str, str]:
    """Return the two parts of NAME=PRIOR."""
    name, _, prior = scenario.partition("=")
    if not name.strip() or not prior:
        raise ParameterError("scenario", scenario, "NAME=PRIOR, for example 2019=incomes2019.csv")
    return name.strip(), prior


def _scenario(name: str, prior: str, known: Callable[[str], PublicPrior]) -> PublicPrior:
    """Return a scenario; a file of rows has the columns of the prior."""
    try:
        return known(prior)
    except ParameterError as error:
        of = "--prior-column" if error.name == "columns" else "the prior"
        expected = f"NAME=PRIOR, {of} {error.expected}"
        raise ParameterError("scenario", f"{name}={prior}", expected) from error


def _of_people(said: str) -> str:
    """Return a prior that needs neither the columns of a file nor a server."""
    if _is_of_rows(said):
        if not Path(said).is_file():
            raise ParameterError("prior", said, "a file that exists")
    elif not said.startswith("pilot:"):
        public_prior(said, (), None, ())
    return said


def _columns(file: str, said: str) -> tuple[str, ...]:
    columns = tuple(name.strip() for name in said.split(","))
    public_prior(file, columns, None, ()).make(None)
    return columns
