"""Local dampening: utilities measured in numbers of changes [LD §3, §4]."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from geoveil.gp import (
    BALL,
    ParameterError,
    PrivateValueError,
    RandomSource,
    Real,
    as_given,
    round_up,
    validation,
)
from geoveil.selection.base import Array, Guarantee, LocalUtilities, Scores, SelectionMechanism
from geoveil.selection.draws import Indices, exponential_bounds, weighted_indices

_MOST_CHANGES = 100_000
_Numbers = NDArray[Any]
"""Float64, or balls as objects."""


class LocalDampening(SelectionMechanism):
    """P(r) ∝ e^{ε D_r/2}, where D dampens u_r to a sensitivity of 1 [LD Def. 3.6–3.8].

    D_r is piecewise linear and odd in u_r, with D = i at b(i) = Σ_{t<i} δ(x, t, r): one for each
    change that lowering the utility to 0 may take. So D_r = ± Σ_t clip((|u_r| − b(t))/δ_t, 0, 1),
    where a step of length 0 counts 1 unless u_r = 0.

    Args:
        epsilon: the largest log-ratio of probabilities (nats) between neighbouring databases, > 0.
        sensitivity: Δ > 0, the global sensitivity, which caps every δ and continues a table beyond
            its end [LD Lemma 3.5]; None for functions δ that need none.
        shifted: subtract a utility s → ∞ from all first [LD Def. 4.3]: then D_r, up to a common
            term, is (u_r − Σ_t (Δ − δ(x, t, r)))/Δ. Needs Δ.
        replace: use max_r δ(x, t, r) instead of δ [LD §4.2], so that D keeps the order of u.

    Raises:
        ParameterError: if an argument is out of range, or `shifted` comes without a sensitivity.

    Example:
        >>> m = LocalDampening(epsilon=2.0, sensitivity=7.5)
        >>> node = LocalUtilities([6.5, 0.0], [[3.0, 3.0], [5.0, 5.0]])
        >>> m.dampened(node).tolist()
        [1.7, 0.0]
        >>> m.probabilities(node).round(4).tolist()
        [0.8455, 0.1545]
    """

    _kind: ClassVar[type[Scores]] = LocalUtilities

    def __init__(
        self,
        epsilon: float,
        sensitivity: float | None = None,
        *,
        shifted: bool = False,
        replace: bool = False,
    ) -> None:
        super().__init__(epsilon)
        for name, flag in (("shifted", shifted), ("replace", replace)):
            validation.require_flag(name, flag)
        if sensitivity is not None:
            sensitivity = round_up(
                as_given(sensitivity, validation.positive("sensitivity", sensitivity))
            )
        elif shifted:
            raise ParameterError("sensitivity", None, "a number > 0 for shifted=True")
        self.sensitivity = sensitivity
        self.shifted = shifted
        self.replace = replace

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee(
            epsilon=self.epsilon,
            statement="neighbours, given an admissible bound of the local sensitivities",
            source="[LD Theorem 4.4]" if self.shifted else "[LD Theorem 3.10]",
        )

    def dampened(self, scores: LocalUtilities) -> Array:
        """Return D, shape (m,): private. Shifted utilities omit their common part.

        Raises:
            ParameterError: if the scores are of another kind, or a table comes without sensitivity.
            PrivateValueError: if a function's δ do not add up to a utility within 100,000 changes.
        """
        return self._dampened(self._checked(scores), _FLOATS)

    def _checked(self, scores: Any) -> LocalUtilities:
        utilities: LocalUtilities = super()._checked(scores)
        # Refuse every table, since whether this one is long enough is private.
        if utilities.ends and self.sensitivity is None:
            raise ParameterError("sensitivity", None, "a number > 0, where δ is a table")
        return utilities

    def _probabilities(self, scores: LocalUtilities) -> Array:
        dampened = self._dampened(scores, _FLOATS)
        weights = np.exp(self.epsilon / 2 * (dampened - dampened.max()))
        return np.asarray(weights / weights.sum())

    def _draw(self, scores: LocalUtilities, size: int, source: RandomSource) -> Indices:
        dampened, steps = self._walked(scores, _FLOATS)
        # After i steps of at least u/i each, float64 and D are off by at most i² roundings.
        slack = 2.0**-48 * (steps + 2) ** 2 * (1 + np.abs(dampened))
        gaps = self.epsilon / 2 * (dampened.max() - dampened)
        slack = self.epsilon / 2 * (slack + slack.max()) + 2.0**-48 * gaps
        bounds = exponential_bounds(np.maximum(gaps - slack, 0), gaps + slack)
        return weighted_indices(size, bounds, self._weights(scores), source)

    def _weights(self, scores: LocalUtilities) -> Callable[[], list[Real]]:
        def weights() -> list[Real]:
            dampened = self._dampened(scores, _BALLS).tolist()
            top = max(dampened, key=lambda ball: ball.mid())
            half = BALL.constant(Fraction(self.epsilon) / 2)
            return [BALL.exp(half * (value - top)) for value in dampened]

        return weights

    def _dampened(self, scores: Any, numbers: "_Lift") -> _Numbers:
        return self._walked(scores, numbers)[0]

    def _walked(self, scores: Any, numbers: "_Lift") -> tuple[_Numbers, int]:
        """Return D and the number of steps: all rows of a table, or as many as a function needs."""
        rule = self._shifted_sum if self.shifted else self._unshifted_sum
        return rule(scores, numbers)

    def _row(self, scores: LocalUtilities, changes: int) -> Array:
        """Return δ(x, t, ·), capped at Δ."""
        row = scores.sensitivity(changes)
        if row is None:
            return np.full(scores.outcomes, self.sensitivity)
        if self.replace:
            row = np.full_like(row, row.max())
        return row if self.sensitivity is None else np.minimum(row, self.sensitivity)

    def _ended(self, scores: LocalUtilities, changes: int, row: Array) -> bool:
        """Return whether δ = Δ from here on: by a table's length or a function's row."""
        if scores.ends:
            return scores.sensitivity(changes) is None
        return self.sensitivity is not None and bool((row == self.sensitivity).all())

    def _shifted_sum(self, scores: LocalUtilities, numbers: "_Lift") -> tuple[_Numbers, int]:
        end = numbers.lift(np.full(scores.outcomes, self.sensitivity))
        total = numbers.lift(scores.values)
        for changes in range(_MOST_CHANGES):
            row = self._row(scores, changes)
            if self._ended(scores, changes, row):
                return np.asarray(total / end), changes
            total = total - (end - numbers.lift(row))
        raise PrivateValueError(_UNBOUNDED)

    def _unshifted_sum(self, scores: LocalUtilities, numbers: "_Lift") -> tuple[_Numbers, int]:
        result = numbers.lift(np.zeros(scores.outcomes))
        left = numbers.lift(np.abs(scores.values))
        sign = np.sign(scores.values)
        for changes in range(_MOST_CHANGES):
            row = self._row(scores, changes)
            bounds = numbers.lift(row)
            if self._ended(scores, changes, row):
                result = result + numbers.positive(left) / bounds
                return np.asarray(result * sign), changes
            result = result + numbers.step(left, bounds)
            left = left - bounds
            if not scores.ends and bool((left <= 0).all()):
                return np.asarray(result * sign), changes
        raise PrivateValueError(_UNBOUNDED)


_UNBOUNDED = f"bounded by sensitivities that add up to it, or reach Δ, in {_MOST_CHANGES} changes"


class _Lift:
    """One-dimensional arrays of floats, or of balls."""

    def __init__(
        self,
        lift: Callable[[Array], _Numbers],
        step: Callable[[Any, Any], Any],
        positive: Callable[[Any], Any],
    ) -> None:
        self.lift = lift
        """Converts an array to such an array."""
        self.step = step
        """The part of a step of length b ≥ 0 covered when a distance x remains."""
        self.positive = positive
        """The greater of x and 0."""


def _balls(values: Array) -> _Numbers:
    result = np.empty(len(values), dtype=object)
    result[:] = [BALL.private(value) for value in values.tolist()]
    return result


def _float_step(left: Array, bound: Array) -> Array:
    with np.errstate(divide="ignore", invalid="ignore"):  # a step of length 0
        return np.where(left >= bound, 1.0, np.clip(left / bound, 0.0, 1.0))


def _ball_step(left: Real, bound: Real) -> Real:
    zero, unit = BALL.constant(0), BALL.constant(1)
    if left >= bound:
        return unit
    # At a knot balls may leave both possible.
    return zero if left <= 0 else BALL.clip(left / bound, zero, unit)


_FLOATS = _Lift(
    lambda values: np.array(values, dtype=np.float64), _float_step, lambda x: np.maximum(x, 0)
)
_BALLS = _Lift(
    _balls,
    np.frompyfunc(_ball_step, 2, 1),
    np.frompyfunc(lambda x: BALL.maximum(x, BALL.constant(0)), 1, 1),
)
