"""Rows for forms: pairs of forms, and the law of a device's whole report.

A point is a form. Each coordinate is a field's answer in ε that the ledger charges, and the path
moves along one axis at a time. Every other form is made up.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from geoveil.audit.case import Case
from geoveil.audit.categories import Chain
from geoveil.audit.laws import placed, together
from geoveil.campaign import (
    Attribute,
    ChoiceField,
    Condition,
    FormCampaign,
    NumberField,
    OrdinalField,
)
from geoveil.gp import GeoPrivacy, RandomSource, lazy

Array = NDArray[np.float64]
_PER, _MOST = 2.0, 10.0
"""The privacy distance and the end of the range of both numbers."""
_STEPS = 40


def _number(name: str, applies: Condition | None = None) -> NumberField:
    return NumberField(
        attribute=Attribute(name=name, unit="year", least=0.0, most=_MOST),
        privacy=GeoPrivacy(1.0, _PER, "year"),
        applies=applies,
    )


_RENTS = ChoiceField(name="rents", options=("no", "yes"), epsilon=1.0)
FORM = FormCampaign(
    campaign_id="audited",
    title="audited",
    fields=(
        _number("age"),
        OrdinalField(name="mood", options=("bad", "fair", "good"), epsilon=0.5),
        _RENTS,
        _number("years", Condition(field="rents", options=("yes",))),
    ),
    opens=datetime(2000, 1, 1, tzinfo=UTC),
    closes=datetime(2001, 1, 1, tzinfo=UTC),
)


def _alike(prepared: Array) -> Array:
    """Return 1 for every person."""
    return np.ones(len(prepared))


@dataclass(frozen=True, eq=False)
class FormReport:
    """A report of the audited form, from a sound or a faulty device."""

    sent: Callable[[Array], Array] = np.asarray
    """Answers prepared by the campaign, (n, 4) → values that a device perturbs."""
    factor: Callable[[Array], Array] = _alike
    """The same answers → the factor on the noise of the age, (n,)."""
    release: Callable[[Sequence[Any], RandomSource], Sequence[int]] = FORM.release
    """A device's release of prepared answers, which the other two do not affect."""

    @property
    def privacy(self) -> GeoPrivacy:
        """The promise, with the distance of forms that the ledger charges."""
        return GeoPrivacy(1.0, 1.0, "ε of the ledger")

    @lazy
    def _units(self) -> Array:
        """The length of one year or option along each axis."""
        return np.array([privacy.rate for _, privacy, _ in FORM.charges])

    @property
    def step(self) -> Array:
        """The unit of each integer of a report."""
        return np.array([getattr(field.mechanism, "step", 1.0) for field in FORM.fields])  # type: ignore[attr-defined]

    @lazy
    def _chains(self) -> Mapping[int, Chain]:
        """The laws of options, by column."""
        fields: Any = enumerate(FORM.fields)
        return {
            i: Chain(f.mechanism, range(len(f.options))) for i, f in fields if f.attribute_options
        }

    def _prepared(self, x: Array) -> Array:
        """Return the campaign's prepared answers at points with whole options."""
        answers = np.clip(x / self._units, 0.0, [_MOST, 2.0, 1.0, _MOST])  # as devices do
        # Most forms follow their like, which `unique` would sort.
        new = np.append(True, np.diff(answers, axis=0).any(axis=1))
        rows, back = np.unique(answers[new], axis=0, return_inverse=True)
        prepared = [FORM.prepare(self._named(row)) for row in rows.tolist()]
        return np.asarray(np.array(prepared, np.float64)[back.ravel()[np.cumsum(new) - 1]])

    def _named(self, row: Sequence[float]) -> dict[str, Any]:
        return {
            field.name: field.attribute_options[round(v)] if field.attribute_options else v
            for field, v in zip(FORM.fields, row, strict=True)
        }

    def mean(self, x: ArrayLike) -> Array:
        """Return the mean of each number and option of a sound report of each form."""
        means = self._prepared(np.asarray(x, np.float64))
        for column, chain in self._chains.items():
            means[:, column] = chain.mean(means[:, column])
        return means

    def release_many(self, x: ArrayLike, source: RandomSource) -> NDArray[np.int64]:
        """Return the integers of one report per form, (n, 4)."""
        prepared = self._prepared(np.asarray(x, np.float64)).tolist()
        whole = [[int(v) if i in self._chains else v for i, v in enumerate(r)] for r in prepared]
        return np.array([self.release(row, source) for row in whole])

    def placed(self, x: Array, reports: NDArray[np.int64]) -> tuple[Array, ...]:
        """Return the places of integers in the law of a sound report, as `Placed` has them."""
        prepared = self._prepared(x[None])[0]
        parts: list[Any] = []
        for i, field in enumerate(FORM.fields):
            column = (reports[:, i], reports[:, [i]])[i not in self._chains]
            law: Any = self._chains.get(i, field.mechanism)  # type: ignore[attr-defined]
            parts.append(placed(law, prepared[i], column))
        return astuple(together(parts))

    def simulate(self, x: ArrayLike, rng: np.random.Generator) -> Array:
        """Return one report per form."""
        prepared = self._prepared(np.asarray(x, np.float64))
        reports = []
        for field, held in zip(FORM.fields, self.sent(prepared).T, strict=True):
            whole: Any = field.mechanism  # type: ignore[attr-defined]
            values = held.astype(np.int64) if field.attribute_options else held
            reports.append(np.reshape(whole.simulate(values, rng), len(held)).astype(np.float64))
        reports[0] = prepared[:, 0] + (reports[0] - prepared[:, 0]) * self.factor(prepared)
        return np.stack(reports, axis=-1)

    def log_density(self, y: ArrayLike, x: ArrayLike) -> Array:
        """Return the log-density of a report of a form, interpolated between two options."""
        reports, points = np.asarray(y, np.float64), np.atleast_2d(np.asarray(x, np.float64))
        low, high = points.copy(), points.copy()
        options = points[:, 1:3] / self._units[1:3]
        low[:, 1:3], high[:, 1:3] = (end(options) * self._units[1:3] for end in (np.floor, np.ceil))
        share = np.mod(np.clip(options, 0, [2, 1]), 1).max(axis=1)
        below, above = (self._log(reports, self._prepared(end)) for end in (low, high))
        logs = np.asarray(below + share * (above - below))
        return logs if np.ndim(x) > 1 else logs[..., 0]

    def _log(self, y: Array, prepared: Array) -> Array:
        sent, scale = self.sent(prepared), _PER * self.factor(prepared)
        logs = -np.log(2 * scale) - np.abs(y[..., 0] - sent[:, 0]) / scale
        logs = logs - np.log(2 * _PER) - np.abs(y[..., 3] - sent[:, 3]) / _PER
        for column, chain in self._chains.items():
            law = np.log(chain.law)
            logs = logs + law[sent[:, column].astype(int), y[..., column].astype(int)]
        return np.asarray(logs)


def _coded(reports: Array) -> Array:
    """Return a code of both options and of both numbers' places, so that every field counts."""
    ages, years = (np.searchsorted([0.0, end], reports[:, i]) for i, end in ((0, 9.0), (3, _MOST)))
    return np.asarray(((reports[:, 1] * 2 + reports[:, 2]) * 3 + ages) * 3 + years)


def _row(report: FormReport, variant: str = "", statistic: Any = _coded) -> Case:
    units = report._units
    corners = np.array(
        [[0, 0, 0, 0], [4, 0, 0, 0], [4, 0, 1, 0], [4, 0, 1, _MOST], [4, 0, 0, _MOST]]
        + [[4, k, 0, _MOST] for k in (1, 2)]
        + [[9, 2, 0, _MOST]],
        np.float64,
    )
    place = np.linspace(0, len(corners) - 1, _STEPS * (len(corners) - 1) + 1)
    path = np.stack([np.interp(place, range(len(corners)), of) for of in corners.T], axis=-1)
    ends = np.array([-20.0, -2.0, 0.0, 3.0, 4.5, 7.0, 10.0, 14.0, 40.0])
    outputs = list(itertools.product(ends, range(3), range(2), ends))
    whole = corners * units
    return Case(
        name="FormCampaign",
        variant=variant,
        query="pairs of forms",
        mechanism=report,
        path=path * units,
        outputs=np.array(outputs),
        pairs=tuple(itertools.pairwise(whole)),
        statistic=statistic,
    )


def forms() -> Iterator[Case]:
    """Yield the row of forms."""
    yield _row(FormReport())


def _minus_the_range(prepared: Array) -> Array:
    """Return answers whose last one is below its range if it does not apply."""
    sent = prepared.copy()
    sent[prepared[:, 2] == 0, 3] = -_MOST
    return sent


def _by_mood(prepared: Array) -> Array:
    return np.asarray(1 + prepared[:, 1] / 2)


def _last_bare(prepared: Sequence[Any], source: RandomSource) -> Sequence[int]:
    *released, _ = FORM.release(prepared, source)
    return [*released, round(prepared[-1] / FormReport().step[-1])]


def form_faults() -> Iterator[Case]:
    """Yield faulty devices, which leak an answer in noise or in an inapplicable field."""
    yield _row(FormReport(factor=_by_mood), "noise by another field", lambda r: np.abs(r[:, 0] - 4))
    yield _row(FormReport(sent=_minus_the_range), "not asked, below the range", lambda r: r[:, 3])
    yield _row(FormReport(release=_last_bare), "a number sent as it is")
