"""Plan forms: predict the errors of statistics, and divide ε among the fields.

The planner simulates reports of people like those of a prior sample, and queries them as real
reports.
"""

import csv
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from geoveil.analyst.errors import AnalystError
from geoveil.analyst.relations.by import MeanBy, Parts, QuantileBy
from geoveil.analyst.relations.form_reports import FormReports, FormStatistic
from geoveil.analyst.relations.mean_map import MeanMap
from geoveil.analyst.relations.moments import Mean, PartialCorrelation
from geoveil.analyst.relations.regression import Regression
from geoveil.analyst.relations.tables import CrossTable, Shares
from geoveil.analyst.relations.terms import Option, Term
from geoveil.analyst.results import finite
from geoveil.analyst.statistics.partition import Histogram
from geoveil.campaign import (
    CategoryField,
    Field,
    FormCampaign,
    MultipleField,
    NumberField,
    OrdinalField,
    PlaceField,
    PointField,
)
from geoveil.gp import GeoPrivacy, GeoVeilError, ParameterError, PrivateValueError, validation

Record = dict[str, Any]
_PEOPLE = 20_000
"""People simulated at once; errors for more people are extrapolated."""
_TIMES = 100
"""The most simulations; few people need many of them."""
_TRIES, _NEAR = 8, 0.95
"""The most numbers of people tried, and the part of the wanted error that is near enough."""
_SEARCHED = 4_000
"""People simulated for each division of ε."""
_MOST_ROWS = 200_000
"""Rows of a prior sample."""
_MOST_EPSILON = 16.0
_FACTORS = (2.0, 1.4, 1.2)
"""Factors by which the ε of one field is changed in a trial."""
_MOST_APART = 16.0
"""The largest ratio of the changes of two fields' ε, relative to the form's values."""


class Wish(NamedTuple):
    """A statistic of a form, and the wanted error."""

    text: str
    statistic: FormStatistic[Any]
    error: float | None = None
    """The wanted 95 % error; None for any."""
    row: str | None = None
    """The row with the wanted error; None: every row."""


def sample_of(fields: Sequence[Field], file: Path) -> list[dict[str, Any]]:
    """Return people's answers from a CSV file that has a column for each field.

    A place is "latitude longitude" and options are separated by spaces, as in XLSForm data; an
    empty cell is not an answer.

    Raises:
        ParameterError: naming the row, if it holds no answers to the form.
    """
    try:
        with file.open(newline="", encoding="utf-8-sig") as stream:
            rows = [row for row, _ in zip(csv.DictReader(stream), range(_MOST_ROWS), strict=False)]
    except (OSError, ValueError, csv.Error):
        raise ParameterError("prior-sample", str(file), "a CSV file that can be read") from None
    names = {field.name for field in fields}
    if len(rows) < 2 or not names <= set(rows[0]):
        expected = f"two rows or more, with columns {', '.join(sorted(names))}"
        raise ParameterError("prior-sample", str(file), expected)
    people, campaign = [], _campaign(fields)
    for number, row in enumerate(rows, 1):
        try:
            answers = {f.name: _answer(f, row[f.name]) for f in fields if row[f.name]}
            campaign.prepare(answers)
        except (ValueError, PrivateValueError) as error:
            raise ParameterError(f"row {number} of prior-sample", str(file), str(error)) from None
        people.append(answers)
    return people


def _answer(field: Field, cell: str) -> Any:
    if isinstance(field, NumberField):
        return float(cell)
    if isinstance(field, PlaceField):
        latitude, longitude = map(float, cell.split()[:2])
        return longitude, latitude
    return cell.split() if isinstance(field, MultipleField) else cell


def _campaign(fields: Sequence[Field]) -> FormCampaign:
    return FormCampaign(
        campaign_id="planned",
        title="planned",
        fields=tuple(fields),
        opens=datetime(2000, 1, 1, tzinfo=UTC),
        closes=datetime(2001, 1, 1, tzinfo=UTC),
    )


@dataclass(frozen=True, eq=False)
class PlannedForm:
    """The expected results of a form's statistics, for people like those of a sample."""

    fields: tuple[Field, ...]
    sample: Sequence[Mapping[str, Any]]
    wishes: Sequence[Wish]
    seed: int = 1

    def errors(self, people: int, at_most: int = _PEOPLE) -> list[dict[str, tuple[float, float]]]:
        """Return the estimate and the 95 % error of each row of each statistic.

        Args:
            at_most: the most people to simulate; errors of more fall with the root of their number.

        Raises:
            AnalystError: if such reports do not determine a statistic.
        """
        n = min(validation.require_count("participants", people), at_most)
        rng = np.random.default_rng(self.seed)
        campaign = _campaign(self.fields)
        of_people = zip(*(campaign.prepare(answers) for answers in self.sample), strict=True)
        prepared = [np.array(held) for held in of_people]
        count = min(max(1, 2 * at_most // n), _TIMES)
        times = [self._asked(campaign, prepared, n, rng) for _ in range(count)]
        shrink = math.sqrt(n / people)
        errors = []
        for of in zip(*times, strict=True):
            rows = {row: np.array([time[row] for time in of if row in time]) for row in of[0]}
            errors.append({k: (v[:, 0].mean(), shrink * v[:, 1].mean()) for k, v in rows.items()})
        return errors

    def _asked(
        self,
        campaign: FormCampaign,
        prepared: Sequence[np.ndarray[Any, Any]],
        n: int,
        rng: np.random.Generator,
    ) -> list[dict[str, tuple[float, float]]]:
        """Return the rows of each statistic, of people drawn with replacement."""
        drawn = rng.integers(0, len(self.sample), n)
        reports = simulated(campaign, [held[drawn] for held in prepared], rng)
        answers = []
        for wish in self.wishes:
            try:
                rows = reports.ask(wish.statistic).rows()
            except ParameterError:
                raise
            except GeoVeilError as error:
                raise AnalystError(f"{wish.text}, of {n:,} reports: {error}") from error
            answers.append(dict(zip(map(_label, rows), map(_reach, rows), strict=True)))
        return answers

    def people_for(self, wish: Wish) -> int:
        """Return how many people a statistic needs for its wanted error, which they then have.

        Raises:
            ParameterError: if not even 20,000 people give every row an error.
        """
        alone = replace(self, wishes=[wish])
        every = alone.errors(_PEOPLE)[0]
        ratio = _worst(wish, every)
        if math.isinf(ratio):
            expected = f"that of one row, as {_PEOPLE:,} reports leave some without an interval"
            raise ParameterError(f"error of {wish.text}", wish.error, expected)
        if ratio > 1:
            return math.ceil(_PEOPLE * ratio**2)
        few, enough, people = 1, _PEOPLE, _PEOPLE
        for _ in range(_TRIES):
            # Errors of few fall faster than with the root.
            wanted = people * ratio ** (2.0 if ratio < 0.5 else 1.3)
            wanted = math.sqrt(few * enough) if math.isinf(ratio) else wanted
            people = min(max(round(wanted), few + 1), enough - 1)
            try:
                rows = alone.errors(people)[0]
                ratio = _worst(wish, rows) if len(rows) == len(every) else math.inf
            except GeoVeilError:  # so few do not determine it
                ratio = math.inf
            few, enough = (few, people) if ratio <= 1 else (people, enough)
            if _NEAR <= ratio <= 1 or enough - few <= 1:
                break
        return enough

    def shared_out(self, epsilon: float) -> "PlannedForm":
        """Return the form whose fields divide this ε so that its statistics have the least errors.

        The fields' ε change by factors, one field at a time, as long as the largest error falls,
        as a multiple of the wanted one; without wanted errors, their geometric mean.

        Raises:
            ParameterError: if there is nothing to divide, or too much.
        """
        private = [i for i, field in enumerate(self.fields) if field.privacy is not None]
        if not private:
            raise ParameterError("epsilon-sum", epsilon, "left out: every field is open")
        validation.between("epsilon-sum", epsilon, 0, _MOST_EPSILON * len(private), low_open=True)
        factors = np.ones(len(private))
        best = self._with(private, factors, epsilon)
        least = best._loss()
        for factor in _FACTORS:
            improved = True
            while improved:
                improved = False
                for i in range(len(private)):
                    for by in (factor, 1 / factor):
                        tried = factors * np.where(np.arange(len(factors)) == i, by, 1.0)
                        if tried.max() > _MOST_APART * tried.min():
                            continue
                        other = self._with(private, tried, epsilon)
                        loss = other._loss()
                        if loss < least - 1e-3:
                            factors, best, least, improved = tried, other, loss, True
        return best

    def _with(
        self, private: Sequence[int], factors: np.ndarray[Any, Any], epsilon: float
    ) -> "PlannedForm":
        fields = list(self.fields)
        own = factors * np.array([fields[i].privacy.epsilon for i in private])  # type: ignore[union-attr]
        for i, part in zip(private, (own * epsilon / own.sum()).tolist(), strict=True):
            fields[i] = with_epsilon(fields[i], min(part, _MOST_EPSILON))
        return replace(self, fields=tuple(fields))

    def _loss(self) -> float:
        try:
            errors = self.errors(_SEARCHED, _SEARCHED)
        except AnalystError:
            return math.inf
        worst = [_worst(wish, rows) for wish, rows in zip(self.wishes, errors, strict=True)]
        wanted = [x for x, wish in zip(worst, self.wishes, strict=True) if wish.error is not None]
        return math.log(max(wanted)) if wanted else float(np.mean(np.log(worst)))


def with_epsilon(field: Field, epsilon: float) -> Field:
    """Return a field with another ε."""
    if isinstance(field, PointField):
        privacy = GeoPrivacy(epsilon, field.privacy.per, field.privacy.unit)
        return replace(field, privacy=privacy, step_exponent=None)
    assert isinstance(field, CategoryField)
    return replace(field, epsilon=epsilon)


def simulated(
    campaign: FormCampaign, values: Sequence[Any], rng: np.random.Generator
) -> FormReports:
    """Return simulated reports of people, whose noise does not protect them on a computer.

    Args:
        values: of each field, options by their number, sets of them as bits, and numbers and places
            in the coordinates of queries, (n,) or (n, 2).
    """
    columns = []
    for field, held in zip(campaign.fields, values, strict=True):
        integers = np.asarray(held)
        if isinstance(field, PointField):
            of = field.mechanism
            points = field.clamped(integers.astype(np.float64))
            integers = np.rint(of.simulate(points, rng) / of.step)
        elif isinstance(field, CategoryField) and field.mechanism is not None:
            integers = field.mechanism.simulate(integers, rng)
        columns.append(integers.astype(np.int64).reshape(len(held), -1))
    return FormReports(campaign, np.concatenate(columns, axis=1))


def _label(row: Mapping[str, Any]) -> str:
    """Return the words of a row, or its place on a map."""
    words = [x for x in row.values() if isinstance(x, str)]
    return ", ".join(words or [f"{row[axis]:.5f}" for axis in ("longitude", "latitude")])


def _reach(row: Mapping[str, Any]) -> tuple[float, float]:
    """Return the estimate of a row, and the distance to the farther end of its interval."""
    value = row["estimate"]
    if math.isnan(value):
        return value, math.inf
    return value, max(row["ci_high"] - value, value - row["ci_low"])


def _worst(wish: Wish, rows: Mapping[str, tuple[float, float]]) -> float:
    """Return the largest error as a multiple of the wanted one, or of 1."""
    if wish.row is not None and wish.row not in rows:
        raise ParameterError(f"row of {wish.text}", wish.row, "one of " + "; ".join(rows))
    wanted = rows.values() if wish.row is None else [rows[wish.row]]
    return max(error for _, error in wanted) / (wish.error or 1.0)


def form_plan(plan: PlannedForm, participants: int | None, epsilon: float | None) -> Record:
    """Return a plan as JSON values.

    Args:
        plan: the plan of the form as it stands, or with the best division of ε.
        participants: how many will answer; None to state only how many wishes need.
        epsilon: the sum of ε that was divided among fields; None if it was not.
    """
    errors = plan.errors(participants) if participants is not None else [{}] * len(plan.wishes)
    return {
        "participants": participants,
        "sample": len(plan.sample),
        "epsilon_sum": epsilon,
        "fields": [
            {"name": field.name, "privacy": None if field.privacy is None else str(field.privacy)}
            for field in plan.fields
        ],
        "statistics": [
            {
                "statistic": wish.text,
                "target_error": wish.error,
                "participants": None if wish.error is None else plan.people_for(wish),
                "rows": [
                    {"row": row, "expected": finite(float(value)), "error_95": finite(float(error))}
                    for row, (value, error) in rows.items()
                ],
            }
            for wish, rows in zip(plan.wishes, errors, strict=True)
        ],
    }


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
        raise ParameterError(word, text, f"2 to {most} names of fields, separated by commas")
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


def _by(word: str, text: str) -> tuple[str, str | Parts]:
    number, group = _names(word, text)
    return number, _group(group)


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
    on = [_covariate(each) for each in covariates.split("+")]
    return Regression(_covariate(y), on, model.strip() if colon else "linear")  # type: ignore[arg-type]


def _covariate(text: str) -> str | Term:
    name, equals, option = (part.strip() for part in text.partition("="))
    return Option(name, option) if equals else name


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
        "mean-by": RelationWord(
            lambda text: MeanBy(*_by("mean-by", text)),
            "NUMBER,FIELD",
            "Mean of a number in each group.",
        ),
        "median-by": RelationWord(
            lambda text: QuantileBy(*_by("median-by", text), levels=[0.5]),
            "NUMBER,FIELD",
            "Median of a number in each group.",
        ),
        "correlation": RelationWord(
            _correlation, "A,B[,GIVEN...]", "Correlation of two numbers, or scores, given others."
        ),
        "regression": RelationWord(
            _regression,
            "[MODEL:]Y~X+X...",
            "Regression: linear, or after 'logistic:', 'poisson:', 'median:'; FIELD=OPTION is"
            " whether a person chose it.",
        ),
        "mean-map": RelationWord(
            _mean_map, "NUMBER,PLACE", "Mean of a number by place, on a grid."
        ),
    }
)
"""Word → statistic."""


def wish_in(word: str, said: str) -> Wish:
    """Return the statistic for a word of `RELATIONS`, with the wanted error.

    Args:
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
