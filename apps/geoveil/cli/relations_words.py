"""Options that name statistics of forms, for the commands that ask and plan them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any

import typer

from geoveil.analyst import (
    CrossTable,
    FormStatistic,
    Histogram,
    Interaction,
    Mean,
    MeanBy,
    MeanMap,
    Option,
    PartialCorrelation,
    Parts,
    QuantileBy,
    Regression,
    Shares,
    Square,
    Term,
    Wish,
)
from geoveil.campaign import CategoryField, Field, NumberField, OrdinalField
from geoveil.cli.options import takes
from geoveil.gp import ParameterError, validation


def _option(metavar: str, what: str) -> tuple[Any, Any]:
    return Annotated[list[str] | None, typer.Option(metavar=metavar, help=what)], None


_RELATIONS: Mapping[str, tuple[Any, Any]] = {
    "shares": _option("FIELD", "Share of each option, with a joint band."),
    "mean": _option("FIELD", "Mean of a number, or of the scores 1, 2, …"),
    "table": _option("FIELD,FIELD[,FIELD]", "Cross-table of two or three fields, with a test."),
    "mean_by": _option("NUMBER,FIELD", "Mean of a number in each group."),
    "median_by": _option("NUMBER,FIELD", "Median of a number in each group."),
    "correlation": _option(
        "A,B[,GIVEN...]", "Correlation of two numbers, or scores, given others."
    ),
    "regression": _option(
        "[MODEL:]Y~X+X...",
        "Regression: linear, or after 'logistic:', 'poisson:', 'median:'; FIELD=OPTION is"
        " whether a person chose it, X^2 a square, X:X an interaction.",
    ),
    "mean_map": _option("NUMBER,PLACE", "Mean of a number by place, on a grid."),
}


def relates(command: Callable[..., None]) -> Callable[..., None]:
    """Replace a command's argument `wishes` by the options for statistics of forms."""
    return takes("wishes", _RELATIONS, _wishes)(command)


def _wishes(**said: Sequence[str] | None) -> list[Wish]:
    return [
        _wish(name.replace("_", "-"), text) for name, all_ in said.items() for text in all_ or ()
    ]


def _wish(word: str, said: str) -> Wish:
    text, at, wanted = said.partition("@")
    row, _, error = wanted.rpartition("=")
    try:
        least = validation.positive(f"error of {word}", float(error)) if at else None
    except ValueError:  # ParameterErrors are, too
        raise ParameterError(word, said, "after '@' an error > 0, or ROW=ERROR") from None
    return Wish(f"{word} {text.strip()}", _statistic(word, text), least, row.strip() or None)


def _statistic(word: str, text: str) -> FormStatistic[Any]:
    if word == "shares":
        return Shares(_group(text.strip()))
    if word == "mean":
        return Mean(text.strip())
    if word == "regression":
        return _regression(text)
    most = {"table": 3, "correlation": 9}.get(word, 2)
    names = [name.strip() for name in text.split(",")]
    if not 2 <= len(names) <= most or not all(names):
        raise ParameterError(word, text, f"2 to {most} names of fields, between commas")
    a, b, *more = names
    if word == "table":
        return CrossTable(*map(_group, names))
    if word == "correlation":
        return PartialCorrelation(a, b, more)
    if word == "mean-map":
        return MeanMap(a, b)
    return MeanBy(a, _group(b)) if word == "mean-by" else QuantileBy(a, _group(b), levels=[0.5])


def _regression(text: str) -> Regression:
    answer, tilde, covariates = text.partition("~")
    model, colon, y = answer.rpartition(":")
    if not tilde or not y.strip():
        raise ParameterError("regression", text, "[MODEL:]Y~X+X..., as in 'income ~ age + rents'")
    on = [_product(each) for each in covariates.split("+")]
    return Regression(_covariate(y), on, model.strip() if colon else "linear")  # type: ignore[arg-type]


def _product(text: str) -> str | Term | Interaction:
    factors = [_covariate(part) for part in text.split(":")]
    return Interaction(*factors) if len(factors) > 1 else factors[0]


def _covariate(text: str) -> str | Term:
    name, equals, option = (part.strip() for part in text.partition("="))
    if equals:
        return Option(name, option)
    return Square(name[:-2].rstrip()) if name.endswith("^2") else name


def _group(text: str) -> str | Parts:
    """Return the groups: a field with options, or a number cut at 'NAME:EDGE|EDGE'."""
    name, cut, edges = text.partition(":")
    if not cut:
        return text
    try:
        return Parts(name, Histogram(edges=[float(edge) for edge in edges.split("|")]))
    except ValueError:
        raise ParameterError("edges", edges, "numbers, with '|' between them") from None


def of_each(fields: Sequence[Field]) -> Iterator[Wish]:
    """Yield a statistic for each field."""
    for field in fields:
        asked_of_some = field.applies is not None and isinstance(field, OrdinalField)
        if isinstance(field, NumberField) or asked_of_some:
            yield Wish(f"mean {field.name}", Mean(field.name))
        elif isinstance(field, CategoryField):
            yield Wish(f"shares {field.name}", Shares(field.name))
