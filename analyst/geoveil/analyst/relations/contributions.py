"""Unbiased contributions of each report, for other packages: statsmodels, svy, R's survey."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations_with_replacement
from typing import TYPE_CHECKING

from geoveil.analyst.relations.form_reports import FormReports, condition_of
from geoveil.analyst.relations.place_terms import Coordinate
from geoveil.analyst.relations.terms import NumberOf, Option, Term
from geoveil.campaign import CategoryField, FormCampaign, NumberField, PlaceField
from geoveil.gp import needed_for, validation

if TYPE_CHECKING:
    import pandas


def contributions(
    reports: FormReports,
    terms: Mapping[str, Sequence[Term] | Term] | Sequence[Term] | None = None,
    *,
    products: bool = False,
) -> "pandas.DataFrame":
    """Return each report's unbiased, noisy contributions, a row for each person.

    A mean of a column, with any survey weights, is an unbiased estimate of that of the function of
    people's values; a product of columns of different fields is as unbiased. A square of a column
    is not, nor a product of two columns of one field: name both in one product instead.

    Args:
        reports: of the form.
        terms: functions of fields, or column → functions that are multiplied; by default the number
            of each number field, both coordinates of each place, and each option of the others.
        products: also a column `a * b` of every two columns, and of each with itself.

    Raises:
        UnsupportedError: if pandas is not installed.
    """
    with needed_for("a data frame"):
        import pandas as pd
    if terms is None:
        terms = dict(_all(reports.campaign))
    if not isinstance(terms, Mapping):
        terms = {term.text: term for term in validation.items("terms", terms, Term)}
    columns = {
        name: [of] if isinstance(of, Term) else list(validation.items(f"terms[{name!r}]", of, Term))
        for name, of in terms.items()
    }
    if products:
        pairs = list(combinations_with_replacement(columns.items(), 2))
        columns |= {f"{a} * {b}": [*of_a, *of_b] for (a, of_a), (b, of_b) in pairs}
    return pd.DataFrame(reports.pseudo_values(list(columns.values())), columns=list(columns))


def _all(campaign: FormCampaign) -> Iterator[tuple[str, Sequence[Term]]]:
    """Yield the column of a function of every field, or of several.

    A number counts as 0 for people who are not asked for it: dividing its mean by that of the
    answers that decide who is asked gives the mean of those who are.
    """
    for of in campaign.fields:
        terms: list[Term] = []
        if isinstance(of, NumberField):
            terms = [NumberOf(of.name)]
        elif isinstance(of, PlaceField):
            terms = [Coordinate(of.name, 0), Coordinate(of.name, 1)]
        elif isinstance(of, CategoryField):
            terms = [Option(of.name, option) for option in of.options]
        for term in terms:
            yield term.text, [term, *condition_of(campaign, term)]
