"""The distribution function of perturbed numbers with a simultaneous band, and their density.

A value campaign answers every threshold with the error of a campaign that asks for it alone. The
band covers the whole curve simultaneously; it is monotone and within [0, 1], which costs no
coverage, since the true curve is, too.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from geoveil.analyst.pictures import Axes, draw_curve
from geoveil.analyst.results import Estimates, rows_of, what_holds
from geoveil.analyst.statistics.joint import JointEstimates
from geoveil.analyst.statistics.statistic import (
    Statistic,
    Steps,
    band_width,
    grid,
    located,
    logarithms,
    shares_above,
)
from geoveil.campaign import AttributeCampaign
from geoveil.gp import Array, Limits, LogScale, ParameterError, UnsupportedError, validation

_TAIL = 0.002
"""The share on either side of a default grid."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Curve(Estimates):
    """An estimated curve with a simultaneous band."""

    coverage = "The band holds the whole curve at once at {of.percent}."
    name: str
    """The name of the values."""
    axis: str
    """The name of the arguments."""
    at: Array
    """(m,), increasing."""
    values: Array
    """(m,)"""
    low: Array
    """(m,), the band's lower end."""
    high: Array
    """(m,), the band's upper end."""
    scale: LogScale | None = None
    """The scale of values compared by ratio; None if compared by difference."""
    any_crowd: tuple[Array, Array] | None = None
    """The ends of a band of the curve of the values themselves, valid however people crowd; None if
    the reports give none."""

    @property
    def title(self) -> str:
        return f"{self.name}, from {self.n:,} reports"

    def rows(self) -> list[dict[str, Any]]:
        return rows_of(
            {
                self.axis: self.at,
                "estimate": self.values,
                "band_low": self.low,
                "band_high": self.high,
                **what_holds(len(self.at), self.any_crowd),
            }
        )

    @property
    def axis_names(self) -> tuple[str, str]:
        """The labels of the axes, with units."""
        unit = f", {self.value_unit}" if self.axis == "value" and self.value_unit else ""
        share = f", share per {self.value_unit}" if self.name == "Density" and unit else ""
        return f"{self.axis}{unit}", f"{self.name.lower()}{share}"

    def plot(self, ax: Axes | None = None) -> Axes:
        ax = draw_curve(
            ax, self.title, self.axis_names, self.at, self.values, (self.low, self.high)
        )
        if self.scale is not None and self.axis == "value":
            ax.set_xscale("log")
        return ax

    def held(self, scale: LogScale) -> Self:
        return replace(self, at=scale.from_log(self.at), scale=scale)


@dataclass(frozen=True, kw_only=True, eq=False)
class DistributionCurve(Curve):
    """The share of people up to each threshold."""

    above: JointEstimates = field(repr=False)
    """The estimated shares above the thresholds, before the curve is made monotone."""
    width: float
    """The width of the soft thresholds, in units of the attribute."""

    def held(self, scale: LogScale) -> Self:
        times = math.exp(self.width / 2)
        sentences = (
            f"Thresholds are soft over a factor of {times**2:,.6g}: the share up to T lies between"
            f" the curve's values at T/{times:,.6g} and at {times:,.6g}·T."
        )
        return replace(super().held(scale), about=(sentences, *self.about[1:]))

    def quantiles(self, levels: ArrayLike) -> Curve:
        """Return the quantile function, with a band that ends at thresholds.

        Args:
            levels: increasing, in (0, 1).

        Returns:
            A curve over the levels; its ends are infinite where the grid does not reach them.

        Raises:
            ParameterError: if a level is out of range.
        """
        p = checked_levels(levels)
        values = inverse(self.at, self.values, p)
        blur = f"{self.width / 2:g}"
        if self.scale is not None:
            blur = f"a factor of {math.exp(self.width / 2):.6g}"
        # The band holds at thresholds; between two the curve may jump anywhere.
        low = np.append(-np.inf, self.at)[np.searchsorted(self.high, p)]
        high = np.append(self.at, np.inf)[np.searchsorted(self.low, p, "right")]
        return Curve(
            name="Quantiles",
            axis="level",
            at=p,
            values=values,
            low=low,
            high=high,
            **self.common,
            about=(f"For values blurred by up to {blur} either way.",),
            any_crowd=blurred_less(low, high, self.width, self.scale),
        )

    def density(self) -> Curve:
        """Return the density between neighbouring thresholds, with a simultaneous band.

        The values are blurred by the soft threshold and the distance between two thresholds.

        Raises:
            UnsupportedError: if values are compared by ratio.
        """
        if self.scale is not None:
            raise UnsupportedError(
                "values that are compared by ratio have no density here: ask for the"
                " distribution function, or a histogram"
            )
        steps = np.diff(self.at)
        weights = (np.eye(len(steps), len(self.at)) - np.eye(len(steps), len(self.at), 1)) / steps[
            :, None
        ]
        ends = _ends_of_pairs(self.above.limits, steps)
        middles = (self.at[1:] + self.at[:-1]) / 2
        slopes = self.above.combined(weights, [f"at {t:.15g}" for t in middles.tolist()], ends)
        low, high = slopes.band()
        blur = np.sqrt(self.width**2 / 20 + float(steps.max()) ** 2 / 12)
        return Curve(
            name="Density",
            axis="value",
            at=middles,
            values=np.clip(slopes.values, low, high),
            low=low,
            high=high,
            **self.common,
            about=(
                f"The density is that of values blurred with a standard deviation of {blur:.4g}: it"
                f" differs from the sharp one by about {blur**2 / 2:.4g} times its second"
                " derivative, so that peaks are lower and valleys higher.",
            ),
        )


@dataclass(frozen=True, kw_only=True)
class DistributionFunction(Statistic[DistributionCurve]):
    """The share of people up to each of many thresholds.

    Example:
        >>> DistributionFunction(low=0.0, high=200_000.0, points=41).points
        41
    """

    at: Sequence[float] | None = None
    """The thresholds, increasing; by default evenly from `low` to `high`."""
    points: int = 101
    """The number of default thresholds, 2 to 900."""
    low: float | None = None
    """The first threshold; by default with about 0.2 % of the people below."""
    high: float | None = None
    """The last threshold; by default with about 0.2 % of the people above."""
    width: float | None = None
    """The width of the soft thresholds, in the attribute's unit; three noise scales by default."""

    def __post_init__(self) -> None:
        grid(self.points, self.low, self.high, self.at)

    def on_scale(self, scale: LogScale) -> "DistributionFunction":
        at = None if self.at is None else logarithms("at", self.at)
        low, high = (
            None if end is None else logarithms(name, [end])[0]
            for name, end in (("low", self.low), ("high", self.high))
        )
        return replace(self, at=at, low=low, high=high, width=scale.width(self.width))

    def steps(self, campaign: AttributeCampaign, confidence: float) -> Steps[DistributionCurve]:
        width = band_width(campaign, self.width)
        at = grid(self.points, self.low, self.high, self.at)
        if not len(at):
            (low, high), _ = yield from located(campaign, width, _TAIL)
            at = np.linspace(low, high, self.points)
        at, above = yield from shares_above(at, width)
        return distribution_curve(at, replace(above, confidence=confidence), width)


@dataclass(frozen=True, kw_only=True)
class Density(Statistic[Curve]):
    """The density of people's values, between neighbouring thresholds."""

    of: DistributionFunction = field(default_factory=DistributionFunction)
    """The thresholds, at least two."""

    def steps(self, campaign: AttributeCampaign, confidence: float) -> Steps[Curve]:
        curve = yield from self.of.steps(campaign, confidence)
        if len(curve.at) < 2:
            raise ParameterError("at", curve.at.tolist(), "two thresholds or more")
        return curve.density()


def distribution_curve(at: Array, above: JointEstimates, width: float) -> DistributionCurve:
    """Return the monotone distribution function from shares above increasing thresholds."""
    least, most = above.band()
    # As the curve rises, a bound at one threshold holds at all beyond it.
    low = np.clip(np.maximum.accumulate(1 - most), 0.0, 1.0)
    high = np.clip(np.minimum.accumulate((1 - least)[::-1])[::-1], 0.0, 1.0)
    values = rising_shares(above)
    low, high = np.minimum(low, values), np.maximum(high, values)
    before = np.searchsorted(at, at - width / 2, "right")
    beyond = np.searchsorted(at, at + width / 2)
    return DistributionCurve(
        name="Distribution function",
        axis="value",
        at=at,
        values=values,
        low=low,
        high=high,
        any_crowd=(np.append(0.0, low)[before], np.append(high, 1.0)[beyond]),
        **above.common,
        about=(
            f"Thresholds are soft over {width:,.6g}: the share up to T lies between the curve's"
            f" values {width / 2:,.6g} before T and {width / 2:,.6g} beyond it, as any_crowd says.",
        ),
        above=above,
        width=width,
    )


def rising_shares(above: JointEstimates) -> Array:
    """Return the shares up to each threshold, (m,): the nearest that rise, from those above."""
    from scipy.optimize import isotonic_regression

    return np.asarray(np.clip(isotonic_regression(1 - above.values).x, 0.0, 1.0))


def blurred_less(
    low: Array, high: Array, width: float, scale: LogScale | None
) -> tuple[Array, Array]:
    """Return intervals of values, given those of values that soft thresholds of a width blurred."""
    if scale is not None:
        times = math.exp(width / 2)
        return low / times, high * times
    return low - width / 2, high + width / 2


def checked_levels(levels: ArrayLike) -> Array:
    """Return levels of quantiles, which must increase within (0, 1)."""
    p = np.array(validation.numbers("levels", np.atleast_1d(np.asarray(levels, object))))
    inside = len(p) > 0 and bool(((p > 0) & (p < 1)).all())
    if not inside or not (np.diff(p) > 0).all():
        raise ParameterError(
            "levels", p.tolist(), "increasing numbers in (0, 1), such as 0.5 for the median"
        )
    return p


def inverse(at: Array, curve: Array, levels: Array, *, last: bool = False) -> Array:
    """Return where a rising curve reaches levels; infinite beyond its grid.

    Args:
        at: (m,), increasing.
        curve: (m,), rising, linear in between.
        levels: in (0, 1).
        last: whether to return the last place at a level instead of the first.
    """
    values = np.empty(len(levels))
    reached = np.searchsorted(curve, levels, "right" if last else "left").tolist()
    for i, (level, k) in enumerate(zip(levels.tolist(), reached, strict=True)):
        if 0 < k < len(curve):
            share = (level - curve[k - 1]) / (curve[k] - curve[k - 1])
            values[i] = at[k - 1] + share * (at[k] - at[k - 1])
        else:
            values[i] = -np.inf if k == 0 else np.inf
    return values


def _ends_of_pairs(limits: Sequence[Limits], steps: Array) -> list[Limits]:
    """Return the range of (g(T) − g(T'))/(T' − T), from the range of g."""
    spreads = (limit.reports[1] - limit.reports[0] for limit in limits)
    return [
        Limits((-spread / step, spread / step), (0.0, 1.0 / step))
        for spread, step in zip(spreads, steps.tolist(), strict=False)
    ]
