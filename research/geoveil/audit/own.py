"""Audit and simulate a user's mechanism, from an object or a short file.

To release data, a mechanism needs a campaign and a record (docs/how-to/mechanism.md). To compare
it, a function of a query and a guarantee suffices.
"""

import inspect
import math
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, replace
from functools import partial, wraps
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any, NoReturn, Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from geoveil.audit.case import Array, Audited, Case, Scene, additive_outputs
from geoveil.audit.catalogue import BELL, RAMP, STEP, outputs_of
from geoveil.audit.refinement import FAINT
from geoveil.audit.repeats import OFF_GRID, OFTEN
from geoveil.audit.selection import Selects, far_fraction, led_pairs, worst_pair, worst_utilities
from geoveil.gp import (
    GeoPrivacy,
    LocalPrivacy,
    ParameterError,
    Query,
    QueryMechanism,
    UnsupportedError,
    validation,
)
from geoveil.selection import ScoresLike, Utilities


class StandardNoise(Protocol):
    """Noise in standard form: one of geoveil's families, or any object with these methods."""

    @property
    def variance(self) -> float:
        """The variance; infinite if it does not exist."""
        ...

    def logpdf(self, z: ArrayLike) -> Array:
        """Return the log-density."""
        ...

    def sample(self, rng: np.random.Generator, size: tuple[int, ...]) -> Array:
        """Return samples."""
        ...


@dataclass(frozen=True, slots=True)
class NoisyAnswer:
    """f(x) + scale(x)·Z in floats, for audits and simulations only.

    Args:
        query: f.
        privacy: the promise to audit.
        noise: Z, symmetric about 0.
        scale: of the noise, > 0: a number, or a function of points, shape (n,) or (n, k) → (n,).

    Example:
        >>> from geoveil.gp import GeoPrivacy, Laplace, Threshold
        >>> query, privacy = Threshold(100_000.0, 16_000.0), GeoPrivacy(1.0, per=8_000.0)
        >>> own = NoisyAnswer(query, privacy, Laplace(), 1.1 * query.lipschitz / privacy.rate)
        >>> own.variance([90_000.0]).round(3).tolist()
        [0.605]
    """

    query: Query
    privacy: GeoPrivacy
    noise: StandardNoise
    scale: float | Callable[[Array], Array]

    def mean(self, x: ArrayLike) -> Array:
        """Return the mean of a report at each point: f."""
        return self.query.value(x)

    def variance(self, x: ArrayLike) -> Array:
        """Return the variance of a report at each point."""
        return np.asarray(np.square(self._scale(x)) * self.noise.variance)

    def simulate(self, x: ArrayLike, rng: np.random.Generator) -> Array:
        """Return one report per point. Not private on a computer."""
        value = self.query.value(x)
        return np.asarray(value + self._scale(x) * self.noise.sample(rng, value.shape))

    def log_density(self, y: ArrayLike, x: ArrayLike) -> Array:
        """Return the log-density at output y given the point x, the two broadcast together."""
        scale = self._scale(x)
        standard = (np.asarray(y, dtype=np.float64) - self.query.value(x)) / scale
        return np.asarray(self.noise.logpdf(standard) - np.log(scale))

    def _scale(self, x: ArrayLike) -> Array:
        points = np.asarray(x, dtype=np.float64)
        given = self.scale(points) if callable(self.scale) else self.scale
        scale = np.broadcast_to(given, self.query.value(points).shape)
        if not (scale > 0).all():
            raise ParameterError("scale", float(scale.min()), "numbers > 0")
        return scale


MakeMechanism: TypeAlias = Callable[[Query, GeoPrivacy], Audited]
"""A function of a query and a guarantee that makes a mechanism."""
_SCENES = (RAMP, replace(STEP, privacy=replace(STEP.privacy, epsilon=16.0)), BELL)
"""Queries to answer; at one ε, noise is so small that reports show a value rounded to `per`/20."""
_EVEN = np.linspace(-12.0, 12.0, 16_001)
"""Outputs about the middle of the reports, in units of their spread, where a law is summed."""
_OFF, _MOST = 1e-3, 2**17
"""The most by which values of a grid are off, in steps of it, and its largest number of values."""
_FEWER = 40
"""Factor by which fewer points of the path tell whether there is a density between reports."""
_AT_ENDS = 10_000
"""Reports drawn at each end of a pair, where rare ones may have values of their own."""
_DRAWN = 3
"""Reports drawn at each point of the path, as outputs to test."""


@dataclass(frozen=True, slots=True)
class OwnSelection:
    """A mechanism of selection that `make` makes from ε (nats per changed record) and Δ > 0.

    Example:
        >>> from geoveil.selection import PermuteAndFlip
        >>> round(OwnSelection("flip", PermuteAndFlip).audited(), 6)
        1.0
    """

    name: str
    make: Callable[[float, float], Selects]
    epsilon: float = 1.0
    sensitivity: float = 1.0

    def __post_init__(self) -> None:
        validation.positive("epsilon", self.epsilon)
        validation.positive("sensitivity", self.sensitivity)

    def at(self, epsilon: float, sensitivity: float = 1.0) -> "OwnSelection":
        """Return the mechanism at another ε and sensitivity."""
        return replace(self, epsilon=epsilon, sensitivity=sensitivity)

    def probabilities(self, scores: ScoresLike) -> Array:
        """Return the probability of each outcome; refuse too few, or a sum that is not 1."""
        values = scores.values if isinstance(scores, Utilities) else np.asarray(scores, np.float64)
        try:
            with redirect_stdout(sys.stderr):
                made = self.make(self.epsilon, self.sensitivity)
                law = np.asarray(made.probabilities(values), dtype=np.float64)
        except Exception as error:
            permitted = f"a mechanism with probabilities; {type(error).__name__}: {error}"
            raise ParameterError("module", self.name, permitted) from error
        if law.shape != values.shape or not abs(law.sum() - 1) < 1e-6 or (law < 0).any():
            raise ParameterError(
                "module",
                self.name,
                "a mechanism of a probability for each score, which add up to 1",
            )
        return law

    def audited(self) -> float:
        """Return the largest log-ratio between neighbours, divided by ε."""
        fractions = [worst_utilities(self.at(1.0), 3, 1.0).epsilon]
        for epsilon, sensitivity in _SETTINGS:
            own = self.at(epsilon, sensitivity)
            fractions.append(worst_pair(own, led_pairs(sensitivity)).epsilon / epsilon)
            fractions.append(far_fraction(own, epsilon, sensitivity))
        return max(fractions)


_SETTINGS = ((1.0, 1.0), (0.1, 7.0), (3.0, 0.03), (0.5, 1e-4), (8.0, 1e3), (0.02, 40.0))
"""ε and Δ for the audit of a selection mechanism."""
AUDITED = (
    "the largest log-ratio between neighbours that was found, over ε, at ε from 0.02 to 8, of 2 to"
    " 100 outcomes whose scores move by the sensitivity"
)
"""The meaning of `OwnSelection.audited`."""


def keeps(found: float) -> bool:
    """Return whether the result is within ε, up to rounding."""
    return found <= 1 + 1e-6


def mechanisms_in(file: Path, *, needed: bool = True) -> Mapping[str, MakeMechanism]:
    """Return the functions of a Python file whose arguments are `query` and `privacy`, by name.

    The file runs like a script: its folder comes first in `sys.path` while it runs, and while one
    of its functions makes a mechanism. Its output always goes to standard error. Names that begin
    with an underscore are ignored.

    Raises:
        ParameterError: if it can't be run, or has none and one is `needed`.
    """
    return _functions_in(file, ("query", "privacy"), needed)


def selections_in(file: Path, *, needed: bool = True) -> Mapping[str, OwnSelection]:
    """Return the mechanisms that functions of `epsilon` and `sensitivity` in a file make, by name.

    The file runs as in `mechanisms_in`, with the same errors.
    """
    functions = _functions_in(file, ("epsilon", "sensitivity"), needed)
    return {name: OwnSelection(name, make) for name, make in functions.items()}


_beside: dict[str, Path] = {}
"""Name → source of each module that the last file imported from its own folder."""
_sources: dict[Path, list[Path]] = {}
"""File of mechanisms → the file and its imports from its folder in the last run."""


def source_files(file: Path) -> list[Path]:
    """Return a file of mechanisms and its imports from its folder, running it if necessary."""
    if file not in _sources:
        _functions_in(file, (), needed=False)
    return _sources[file]


@contextmanager
def _as_a_script(folder: Path) -> Iterator[None]:
    """Let running code import from a folder, and print to standard error."""
    sys.path.insert(0, str(folder))
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        if str(folder) in sys.path:
            sys.path.remove(str(folder))


def _imported(folder: Path, known: Collection[str]) -> Iterator[tuple[str, Path]]:
    """Yield names and sources of modules newly imported from a folder."""
    for name in sorted(sys.modules.keys() - known):
        top, origin = name.partition(".")[0], getattr(sys.modules[name], "__file__", None)
        first = getattr(sys.modules.get(top), "__file__", None)
        # Ignore packages installed in an environment inside the folder.
        if origin and first and Path(first).parent in (folder, folder / top):
            yield name, Path(origin)


def _run_in(folder: Path, make: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(make)
    def made(*given: Any, **named: Any) -> Any:
        with _as_a_script(folder):
            return make(*given, **named)

    return made


def _functions_in(
    file: Path, arguments: Sequence[str], needed: bool
) -> Mapping[str, Callable[..., Any]]:
    spec = spec_from_file_location(f"geoveil_own_{file.stem}", file)
    if not file.is_file():
        raise ParameterError("module", str(file), "a Python file: there is no such file")
    if spec is None or spec.loader is None:
        raise ParameterError("module", str(file), "a Python file, which ends in .py")
    module = module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    while _beside:  # a file of another folder may import others of the same names
        sys.modules.pop(_beside.popitem()[0], None)
    folder, imported = file.resolve().parent, {*sys.modules}
    try:
        with _as_a_script(folder):
            spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # a script ends by sys.exit(main())
        permitted = f"a Python file that runs; {type(error).__name__}: {error}"
        raise ParameterError("module", str(file), permitted) from error
    finally:
        _beside.update(_imported(folder, imported))
    _sources[file] = [file, *sorted(_beside.values())]
    functions = {
        name: made
        for name, made in vars(module).items()
        if not name.startswith("_")
        and callable(made)
        and getattr(made, "__module__", None) == spec.name
        and list(inspect.signature(made).parameters)[:2] == [*arguments]
    }
    for name, made in functions.items():
        try:
            inspect.signature(made).bind(*arguments)
        except TypeError as error:
            given = f"{name}({', '.join(arguments)})"
            permitted = f"a file whose {given} needs nothing else; {error}"
            raise ParameterError("module", str(file), permitted) from error
    if needed and not functions:
        named = f"a function f({', '.join(arguments)}), whose arguments have these names"
        raise ParameterError("module", str(file), f"a file with {named}")
    return {name: _run_in(folder, made) for name, made in functions.items()}


def checked(
    name: str, mechanism: object, query: Query, needed: Sequence[str] = ("simulate",)
) -> "Audited | Checked":
    """Return a user's mechanism with checks that it answers a number for each point.

    One of geoveil's own is returned unchanged.

    Args:
        name: the name of the function that made it.
        mechanism: the function's result.
        query: the query that it answers.
        needed: attributes that it must have.

    Raises:
        ParameterError: if it lacks one.
    """
    made = f"a file whose {name}(query, privacy) returns a mechanism"
    lacking = [part for part in needed if not hasattr(mechanism, part)]
    if lacking:
        permitted = f"with {', '.join(needed)}; a {type(mechanism).__name__} lacks"
        raise ParameterError("module", name, f"{made} {permitted} {', '.join(lacking)}")
    if not isinstance(mechanism, QueryMechanism):
        return Checked(name, mechanism, query)
    try:
        inspect.signature(mechanism.release).bind("point", "source")
    except TypeError as error:
        permitted = f"{made} with release(point, source); {error}"
        raise ParameterError("module", name, permitted) from error
    return mechanism


@dataclass(frozen=True, slots=True)
class Checked:
    """A user's mechanism, which refuses an answer other than a number for each point."""

    name: str
    mechanism: Any
    query: Query

    @property
    def privacy(self) -> GeoPrivacy | LocalPrivacy:
        """The promise that the audit tests."""
        promised = self.mechanism.privacy
        if not isinstance(promised, GeoPrivacy | LocalPrivacy):
            kind = type(promised).__name__
            self._refuse("privacy", f"a GeoPrivacy or LocalPrivacy, not a {kind}")
        return promised

    def mean(self, x: ArrayLike) -> Array:
        """Return the mean of a report at each point."""
        with redirect_stdout(sys.stderr):
            means = self.mechanism.mean(x)
        return self._numbers("mean(x)", means, self._shape(x), np.isfinite, "finite")

    def variance(self, x: ArrayLike) -> Array:
        """Return the variance of a report at each point."""
        with redirect_stdout(sys.stderr):
            variances = self.mechanism.variance(x)
        return self._numbers(
            "variance(x)", variances, self._shape(x), lambda v: v >= 0, "0 or more"
        )

    def simulate(self, x: ArrayLike, rng: np.random.Generator) -> Array:
        """Return one report per point."""
        with redirect_stdout(sys.stderr):
            drawn = self.mechanism.simulate(x, rng)
        shape = self._shape(x)
        if np.shape(drawn) != shape:  # one number would be the same noise for everybody
            self._refuse("simulate(x, rng)", f"of shape {shape}, not {np.shape(drawn)}")
        return self._numbers("simulate(x, rng)", drawn, shape, np.isfinite, "finite")

    def log_density(self, y: ArrayLike, x: ArrayLike) -> Array:
        """Return the log-density at output y given the point x, the two broadcast together."""
        with redirect_stdout(sys.stderr):
            densities = self.mechanism.log_density(y, x)
        shape = np.broadcast_shapes(np.shape(y), self._shape(x))
        return self._numbers("log_density(y, x)", densities, shape, lambda v: v < np.inf, "below ∞")

    def _shape(self, x: ArrayLike) -> tuple[int, ...]:
        return np.shape(x) if self.query.dimension == 1 else np.shape(x)[:-1]

    def _numbers(
        self,
        method: str,
        found: Any,
        shape: tuple[int, ...],
        right: Callable[[Array], NDArray[np.bool_]],
        what: str,
    ) -> Array:
        """Return a method's numbers; a single number is repeated."""
        try:
            numbers = np.asarray(found, dtype=np.float64)
            numbers = numbers if numbers.shape == shape else np.broadcast_to(numbers, shape)
        except (TypeError, ValueError):
            kind = type(found).__name__
            self._refuse(method, f"of shape {shape}, not of {np.shape(found)} in a {kind}")
        if wrong := numbers[~right(numbers)].tolist():
            self._refuse(method, f"{what}, not {wrong[0]:g}")
        return numbers

    def _refuse(self, method: str, what: str) -> NoReturn:
        made = f"a file whose {self.name}(query, privacy) returns a mechanism"
        raise ParameterError("module", self.name, f"{made} whose {method} is {what}")


def own_cases(mechanisms: Mapping[str, MakeMechanism]) -> tuple[Case, ...]:
    """Return rows of the audit: each named mechanism at a ramp, a smoothstep and a kernel.

    A query that a mechanism refuses by `UnsupportedError` has no row.
    """
    return tuple(replace(case, own=True) for case in _cases(mechanisms.items()))


def _cases(mechanisms: Iterable[tuple[str, MakeMechanism]]) -> Iterable[Case]:
    for name, make in mechanisms:
        for scene in _SCENES:
            again = partial(_made, name, make, scene)
            try:
                mechanism = again()
            except UnsupportedError:
                continue
            points = np.repeat(scene.way(), _DRAWN, axis=0)
            drawn = mechanism.simulate(points, np.random.default_rng(1))
            middle = float(np.median(drawn))
            spread = max(float(np.quantile(np.abs(drawn - middle), 0.9)), 1e-6)
            if isinstance(mechanism, QueryMechanism):
                kind, outputs = "exact release", outputs_of(mechanism)
            else:
                # Where densities are high in a narrow place, reports are.
                kind, outputs = "floats, no release", np.union1d(additive_outputs(spread), drawn)
            case = replace(scene.case(mechanism, outputs, kind, name=name), again=again)
            if getattr(mechanism.privacy, "delta", 0.0) > 0:
                case = _summed(case, drawn, middle + spread * _EVEN)
            yield case


def _made(name: str, make: MakeMechanism, scene: Scene) -> "Audited | Checked":
    mechanism = make(scene.query, scene.privacy)
    return checked(name, mechanism, scene.query, ("privacy", "simulate", "log_density"))


def _summed(case: Case, drawn: Array, even: Array) -> Case:
    """Return a row whose outputs, even or those of a grid, have almost all of each law.

    Repeated reports are atoms; if there is no density between reports, all are.
    """
    values, counts = np.unique(drawn, return_counts=True)
    between = values[:-1] + OFF_GRID * np.diff(values)
    logs = case.mechanism.log_density(between[:, None], case.path[::_FEWER])
    if len(between) and (logs < FAINT).all():
        grid = _grid(values, even[0], even[-1])
        return replace(case, outputs=grid, atoms=grid)
    ends = np.repeat(np.concatenate(case.pairs), _AT_ENDS, axis=0)
    values, counts = np.unique(
        np.append(drawn, case.mechanism.simulate(ends, np.random.default_rng(2))),
        return_counts=True,
    )
    atoms = values[counts >= OFTEN]
    beside = np.nextafter(atoms, [[-np.inf], [np.inf]]).ravel()
    outputs = np.unique(np.concatenate([case.outputs, even, atoms, beside]))
    return replace(case, outputs=outputs, atoms=atoms)


def _grid(values: Array, low: float, high: float) -> Array:
    """Return two or more increasing values, with all others of their grid between two bounds."""
    places = np.rint((values - values[0]) / np.diff(values).min())
    step = (values[-1] - values[0]) / places[-1]
    first = min(math.floor((low - values[0]) / step), -1)
    last = max(math.ceil((high - values[0]) / step), int(places[-1]) + 1)
    if np.abs(values - values[0] - step * places).max() > _OFF * step or last - first > _MOST:
        return values
    grid: Array = values[0] + step * np.arange(first, last + 1)
    grid[places.astype(np.intp) - first] = values
    return grid
