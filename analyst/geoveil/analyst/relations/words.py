"""The words for statistics of forms, shared by the commands that ask and plan them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from geoveil.analyst.planned_forms import Wish
from geoveil.analyst.relations.by import MeanBy, Parts, QuantileBy
from geoveil.analyst.relations.form_reports import FormStatistic
from geoveil.analyst.relations.mean_map import MeanMap
from geoveil.analyst.relations.moments import Mean, PartialCorrelation
from geoveil.analyst.relations.products import Interaction
from geoveil.analyst.relations.regression import Regression
from geoveil.analyst.relations.tables import CrossTable, Shares
from geoveil.analyst.relations.terms import Option, Square, Term
from geoveil.analyst.statistics.partition import Histogram
from geoveil.campaign import CategoryField, Field, NumberField, OrdinalField
from geoveil.gp import ParameterError, validation


@dataclass(frozen=True, slots=True)
class RelationWord:
    """A word for a statistic of forms: an option of commands."""

    make: Callable[[str], FormStatistic[Any]]
    """Makes the statistic from the text after the word."""
    takes: str
    """The form of that text, as help shows it."""
    help: str


def _names(word: str, text: str, most: int = 2) -> list[str]:
    names = [name.strip() for name in text.split(",")]
    if not 2 <= len(names) <= most or not all(names):
        raise ParameterError(word, text, f"2 to {most} names of fields, between commas")
    return names


def _group(text: str) -> str | Parts:
    """Return the groups: a field with options, or a number cut at 'NAME:EDGE|EDGE'."""
    name, cut, edges = text.partition(":")
    if not cut:
        return text
    try:
        return Parts(name, Histogram(edges=[float(edge) for edge in edges.split("|")]))
    except ValueError:
        raise ParameterError("edges", edges, "numbers, with '|' between them") from None


def _mean_by(text: str) -> MeanBy:
    number, group = _names("mean-by", text)
    return MeanBy(number, _group(group))


def _median_by(text: str) -> QuantileBy:
    number, group = _names("median-by", text)
    return QuantileBy(number, _group(group), levels=[0.5])


def _mean_map(text: str) -> MeanMap:
    number, place = _names("mean-map", text)
    return MeanMap(number, place)


def _correlation(text: str) -> PartialCorrelation:
    first, second, *given = _names("correlation", text, 9)
    return PartialCorrelation(first, second, given)


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


RELATIONS: Mapping[str, RelationWord] = MappingProxyType(
    {
        "shares": RelationWord(
            lambda text: Shares(_group(text.strip())),
            "FIELD",
            "Share of each option, with a joint band.",
        ),
        "mean": RelationWord(
            lambda text: Mean(text.strip()), "FIELD", "Mean of a number, or of the scores 1, 2, …"
        ),
        "table": RelationWord(
            lambda text: CrossTable(*map(_group, _names("table", text, 3))),
            "FIELD,FIELD[,FIELD]",
            "Cross-table of two or three fields, with a test.",
        ),
        "mean-by": RelationWord(_mean_by, "NUMBER,FIELD", "Mean of a number in each group."),
        "median-by": RelationWord(_median_by, "NUMBER,FIELD", "Median of a number in each group."),
        "correlation": RelationWord(
            _correlation,
            "A,B[,GIVEN...]",
            "Correlation of two numbers, or scores, given others.",
        ),
        "regression": RelationWord(
            _regression,
            "[MODEL:]Y~X+X...",
            "Regression: linear, or after 'logistic:', 'poisson:', 'median:'; FIELD=OPTION is"
            " whether a person chose it, X^2 a square, X:X an interaction.",
        ),
        "mean-map": RelationWord(
            _mean_map,
            "NUMBER,PLACE",
            "Mean of a number by place, on a grid.",
        ),
    }
)
"""Word → statistic."""


def wish_in(word: str, said: str) -> Wish:
    """Return the statistic for a word of `RELATIONS`, with the wanted error.

    Args:
        word: the word of the statistic.
        said: its text; after "@" the error at 95 %, or ROW=ERROR.

    Raises:
        ParameterError: naming the word, or an unknown part of its text.

    Example:
        >>> wish_in("mean", "income@500").error
        500.0
    """
    text, at, wanted = said.partition("@")
    row, _, error = wanted.rpartition("=")
    try:
        least = validation.positive(f"error of {word}", float(error)) if at else None
    except ValueError:  # which includes ParameterError
        raise ParameterError(word, said, "after '@' an error > 0, or ROW=ERROR") from None
    make = RELATIONS[word].make
    return Wish(f"{word} {text.strip()}", make(text), least, row.strip() or None)


def wishes_for(fields: Sequence[Field]) -> Iterator[Wish]:
    """Yield a statistic for each field: a mean, or the shares of its options."""
    for field in fields:
        conditional = field.applies is not None and isinstance(field, OrdinalField)
        if isinstance(field, NumberField) or conditional:
            yield Wish(f"mean {field.name}", Mean(field.name))
        elif isinstance(field, CategoryField):
            yield Wish(f"shares {field.name}", Shares(field.name))
