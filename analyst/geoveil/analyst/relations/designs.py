"""Covariates of equations, from the fields of a form [MATH §16]."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from geoveil.analyst.relations.form_reports import FormReports, refuse_unasked
from geoveil.analyst.relations.place_terms import Coordinate
from geoveil.analyst.relations.scores import Category, Design
from geoveil.analyst.relations.terms import NumberOf, Option, Score, Term, operators
from geoveil.campaign import FormCampaign, MultipleField, NumberField, OrdinalField, PlaceField
from geoveil.gp import Array, ParameterError, UnsupportedError

MOST_COVARIATES = 200


def terms_of(campaign: FormCampaign, wanted: Sequence[str | Term]) -> list[Term]:
    """Return functions of fields, with a field's name replaced by its functions."""
    terms: list[Term] = []
    for each in wanted:
        if isinstance(each, Term):
            terms.append(each)
            continue
        field = campaign.field(each)
        if isinstance(field, NumberField):
            terms.append(NumberOf(field.name))
        elif isinstance(field, PlaceField):
            terms += [Coordinate(field.name, axis) for axis in (0, 1)]
        elif isinstance(field, OrdinalField):
            terms.append(Score(field.name))
        else:
            others = field.attribute_options[not isinstance(field, MultipleField) :]
            terms += [Option(field.name, option) for option in others]
    require_names([term.text for term in terms])
    return terms


def require_names(names: Sequence[str]) -> None:
    """Refuse repeated names of covariates, or too many covariates."""
    if len(set(names)) < len(names) or not 0 < len(names) < MOST_COVARIATES:
        expected = f"1 to {MOST_COVARIATES - 1} covariates, each with a name of its own"
        raise ParameterError("covariates", names, expected)


def design_of(
    reports: FormReports, terms: Sequence[Term], y: Term | None = None
) -> tuple[Design, list[int]]:
    """Return covariates, and the places of the constant and of each term among them.

    Args:
        reports: of the form.
        terms: the covariates.
        y: the response; None: there is none.

    Raises:
        UnsupportedError: if functions of one field do not go together.
    """
    campaign = reports.campaign
    for term in (*terms, *([] if y is None else [y])):  # no sum over people is one over some
        refuse_unasked(campaign, [term])

    def values(term: Term) -> Array:
        ((columns, operator),) = operators(campaign, [term])
        return operator.value(reports.columns[:, columns])

    def ends(term: Term) -> tuple[float, float]:
        return term.limits(campaign).means

    numbers, groups = [], dict[Any, list[int]]()
    for i, term in enumerate(terms):
        if isinstance(term, NumberOf | Coordinate):
            numbers.append(i)
        else:  # options that are ticked each by itself are a category each
            ticked = isinstance(campaign.field(term.field), MultipleField)
            groups.setdefault((term.field, term.text if ticked else ""), []).append(i)
    both = {terms[i].field for i in numbers} & {field for field, _ in groups}
    if both:
        raise UnsupportedError(f"{min(both)} as a number and in bands or sets: use either")
    categories = [_category(campaign, [terms[i] for i in of], values) for of in groups.values()]
    # A place has the noise variance 3b² a coordinate, which is all that linear models take of it.
    squares: dict[type, float] = {NumberField: 2.0, PlaceField: 3.0}
    fields: list[Any] = [campaign.field(terms[i].field) for i in numbers]
    noise = np.array([field.noise_scale for field in fields])
    own: Any = None if y is None else campaign.field(y.field)
    design = Design(
        response=np.zeros(reports.n) if y is None else values(y),
        numbers=np.array([values(terms[i]) for i in numbers]).reshape(-1, reports.n).T,
        noise=noise,
        variances=np.array([squares[type(field)] for field in fields]) * noise**2,
        categories=categories,
        response_noise=own.noise_scale if isinstance(y, NumberOf) else 0.0,
        ends=np.array([ends(terms[i]) for i in numbers]).reshape(-1, 2),
        response_ends=np.zeros(2) if y is None else np.array(ends(y)),
    )
    order = [i for of in groups.values() for i in of] + numbers
    return design, [0, *(1 + order.index(i) for i in range(len(terms)))]


def _category(
    campaign: FormCampaign, terms: Sequence[Term], values: Callable[[Term], Array]
) -> Category:
    """Return weights of the options that the terms of one field distinguish."""
    field: Any = campaign.field(terms[0].field)
    if isinstance(terms[0], Option | Score) and not isinstance(field, MultipleField):
        scores: Any = np.stack([term.scores(field) for term in terms], axis=1)  # type: ignore[attr-defined]
        codes, group = np.unique(scores, axis=0, return_inverse=True)
        members = [(group == k).astype(float).tolist() for k in range(len(codes))]
        return Category(np.stack([values(Score(field.name, m)) for m in members], axis=1), codes)
    inside = np.stack([values(term) for term in terms], axis=1)
    outside = 1 - inside.sum(axis=1, keepdims=True)
    return Category(np.hstack([outside, inside]), np.eye(len(terms) + 1)[:, 1:])
