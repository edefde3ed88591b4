"""Whole histories: one person's answers over epochs to several campaigns form one report.

A private value is a trajectory: the readings of all epochs. Between two trajectories, the law of
a history changes by a factor of at most e^{ε·Σ|x_e − x'_e|}, ε the kept points' rate [MATH §13].
"""

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from geoveil.audit.case import require_whole
from geoveil.audit.exact import Finding
from geoveil.gp import Coarsening, GeoPrivacy, ParameterError, PlanarLaplace

Array = NDArray[np.float64]


@dataclass(frozen=True)
class NestedHistory:
    """One perturbed number in each epoch, with answers at several rates made from it.

    The points are trajectories, (n, epochs). A report has the answers of the first epoch, in the
    order of `answers`, then those of the second: (n, epochs · answers).

    Args:
        privacy: the guarantee of the point kept in each epoch, and so of the history per epoch.
        answers: the guarantee of each answer in an epoch, at most that rate and in that unit.
        epochs: ≥ 1.
    """

    privacy: GeoPrivacy
    answers: tuple[GeoPrivacy, ...]
    epochs: int = 1

    def __post_init__(self) -> None:
        require_whole("epochs", self.epochs, 1, 10_000)
        if not self.answers:
            raise ParameterError("answers", self.answers, "at least one guarantee")
        for answer in self.answers:
            Coarsening(PlanarLaplace(self.privacy, 1), PlanarLaplace(answer, 1))

    def simulate(self, x: ArrayLike, rng: np.random.Generator) -> Array:
        """Return one history per trajectory."""
        trajectories = np.asarray(x, dtype=np.float64)
        point = PlanarLaplace(self.privacy, 1)
        z = np.asarray(point.simulate(trajectories.reshape(-1), rng))
        made = [
            np.asarray(Coarsening(point, PlanarLaplace(answer, 1)).simulate(z, rng))
            for answer in self.answers
        ]
        return np.stack(made, axis=-1).reshape(*trajectories.shape[:-1], -1)

    def log_density(self, y: ArrayLike, x: ArrayLike) -> Array:
        """Return the log-density of a history given a trajectory, the two broadcast together.

        Relative to length, and to counting where answers show the same point.
        """
        answers = np.asarray(y, dtype=np.float64)
        by_epoch = answers.reshape(*answers.shape[:-1], self.epochs, len(self.answers))
        trajectory = np.asarray(x, dtype=np.float64)
        return np.asarray(self._of_epoch(by_epoch, trajectory).sum(axis=-1))

    def _of_epoch(self, y: Array, x: Array) -> Array:
        """Return the log-density of the answers of an epoch, (..., m), given its value, (...)."""
        rate = self.privacy.rate
        rates = np.array([answer.rate for answer in self.answers])
        share = np.square(rates / rate)
        apart = np.abs(y[..., :, None] - y[..., None, :])
        with np.errstate(divide="ignore"):
            moved = np.log1p(-share) + np.log(rates / 2) - rates * apart
        # Row i: its answer is the kept point, and the others are made from it.
        made = np.where(apart == 0, np.log(share), moved).sum(axis=-1)
        kept = made + np.log(rate / 2) - rate * np.abs(y - x[..., None])
        # Equal answers reveal the point; two groups of equal ones are impossible.
        alike = (apart == 0).sum(axis=-1)
        groups = ((alike > 1) / alike).sum(axis=-1).round()
        kept = np.where(alike == alike.max(axis=-1, keepdims=True), kept - np.log(alike), -np.inf)
        shown = np.logaddexp.reduce(kept, axis=-1)
        hidden = np.where(groups > 0, -np.inf, self._hidden(y, x))
        return np.asarray(np.where(groups > 1, -np.inf, np.logaddexp(shown, hidden)))

    def _hidden(self, y: Array, x: Array) -> Array:
        """Return the log-density of answers that all differ from the kept point.

        It integrates Laplace densities about x and about every answer.
        """
        shape = np.broadcast_shapes(y.shape[:-1], x.shape)
        rates = np.array([self.privacy.rate, *(answer.rate for answer in self.answers)])
        share = np.square(rates[1:] / rates[0])
        if (share >= 1).any():
            return np.full(shape, -np.inf)
        answers = np.broadcast_to(y, (*shape, y.shape[-1]))
        centers = np.concatenate([np.broadcast_to(x, shape)[..., None], answers], axis=-1)
        integral = log_integral(centers, rates)
        return np.asarray(integral + np.log(rates / 2).sum() + np.log1p(-share).sum())


def log_integral(centers: Array, rates: Array) -> Array:
    """Return log ∫ e^{−Σ rates·|t − centers|} dt, for centers (..., m) and rates (m,)."""
    breaks = np.sort(centers, axis=-1)
    heights = -(rates * np.abs(breaks[..., :, None] - centers[..., None, :])).sum(axis=-1)
    rise = np.abs(np.diff(heights, axis=-1))
    # The mean of an exponential between its ends, over the greater of the two.
    mean = np.where(rise > 0, -np.expm1(-rise) / np.where(rise > 0, rise, 1.0), 1.0)
    with np.errstate(divide="ignore"):
        parts = np.log(mean * np.diff(breaks, axis=-1))
    parts += np.maximum(heights[..., 1:], heights[..., :-1])
    tails = heights[..., [0, -1]] - np.log(rates.sum())
    return np.asarray(np.logaddexp.reduce(np.concatenate([parts, tails], axis=-1), axis=-1))


class History(Protocol):
    """A history that can be audited over pairs of trajectories."""

    @property
    def privacy(self) -> GeoPrivacy:
        """The guarantee of one epoch."""
        ...

    def simulate(self, x: ArrayLike, rng: np.random.Generator) -> Array:
        """Return one history per trajectory."""
        ...

    def log_density(self, y: ArrayLike, x: ArrayLike) -> Array:
        """Return the log-density of a history given a trajectory, the two broadcast together."""
        ...


def worst_history(history: History, epochs: int, count: int = 10_000, seed: int = 1) -> Finding:
    """Return the random pair of trajectories, and the history, with the largest log-ratio.

    Trajectories drift and jump, and differ in some epochs by very little up to many noise scales;
    half of the histories are drawn from one of the two, the others from far beyond both.

    Args:
        history: a history with densities.
        epochs: the numbers in a trajectory, ≥ 1.
        count: pairs, ≥ 1.
        seed: ≥ 0; the same seed draws the same pairs.

    Returns:
        The witness. Its rate is |log p_x(y) − log p_x'(y)| over ε·Σ|x_e − x'_e|: above 1 the
        promise is broken. Its output is the first number of the history.

    Example:
        >>> from geoveil.gp import GeoPrivacy
        >>> year = GeoPrivacy(1.0, per=8_000.0, unit="dollar")
        >>> month = GeoPrivacy(0.5, per=8_000.0, unit="dollar")
        >>> history = NestedHistory(year, (year, month, month), epochs=3)
        >>> round(worst_history(history, 3, count=500).rate, 6)
        1.0
    """
    require_whole("epochs", epochs, 1, 10_000)
    require_whole("count", count, 1, 10_000_000)
    require_whole("seed", seed, 0, 2**63 - 1)
    rng = np.random.default_rng(seed)
    scale = 1 / history.privacy.rate
    x = scale * np.cumsum(rng.standard_cauchy((count, epochs)).clip(-30, 30), axis=1)
    apart = scale * rng.choice([-1.0, 1.0], x.shape) * np.exp(rng.uniform(-7, 3, x.shape))
    apart *= rng.random(x.shape) < 0.6
    apart[:, 0] = np.where((apart == 0).all(axis=1), scale, apart[:, 0])
    other = x + apart
    far = np.where(np.arange(count)[:, None] % 2, 0.0, 40 * scale * rng.standard_normal((count, 1)))
    y = history.simulate(np.where(rng.random((count, 1)) < 0.5, x, other) + far, rng)
    with np.errstate(invalid="ignore"):
        loss = np.abs(history.log_density(y, x) - history.log_density(y, other))
    fraction = np.nan_to_num(loss, nan=0.0, posinf=math.inf) / (np.abs(apart).sum(axis=1) / scale)
    worst = int(np.argmax(fraction))
    return Finding(
        float(fraction[worst]),
        tuple(x[worst].tolist()),
        tuple(other[worst].tolist()),
        float(y[worst, 0]),
    )
