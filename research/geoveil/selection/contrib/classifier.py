"""The base of private classifiers: scikit-learn's conventions, and checks that reveal no record.

Classes and the values of attributes are public arguments, since taking them from the data would
reveal which ones occur.
"""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from geoveil.gp import GeoVeilError, ParameterError, PrivateValueError, RandomSource, validation
from geoveil.selection.base import Guarantee

Codes = NDArray[np.int64]


class NotFittedError(GeoVeilError):
    """`predict` was called before `fit`."""


class PrivateClassifier(ABC):
    """A classifier whose fitted state may be published under its guarantee.

    Args:
        epsilon: ε > 0 of the whole `fit`, in nats per record added or removed.
        classes: the possible labels, at least two and all different. Public.

    Raises:
        ParameterError: if an argument is out of range.
    """

    _statement: ClassVar[str]
    _source: ClassVar[str]

    def __init__(self, epsilon: float, classes: Sequence[Any]) -> None:
        self.epsilon = validation.positive("epsilon", epsilon)
        self.classes = classes
        labels = np.asarray(classes)
        if labels.ndim != 1 or len(labels) < 2 or len(np.unique(labels)) != len(labels):
            raise ParameterError("classes", classes, "at least two labels, all different")
        self.classes_ = labels

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee of the whole `fit`."""
        return Guarantee(epsilon=self.epsilon, statement=self._statement, source=self._source)

    @abstractmethod
    def fit(self, X: ArrayLike, y: ArrayLike, source: RandomSource | None = None) -> Self:  # noqa: N803  # scikit-learn's name
        """Learn from private records; see the subclass."""

    @abstractmethod
    def _predicted(self, X: ArrayLike) -> Codes:  # noqa: N803 - as scikit-learn
        """Return the index of the label for each record, shape (n,)."""

    def predict(self, X: ArrayLike) -> NDArray[Any]:  # noqa: N803 - as scikit-learn
        """Return a label, shape (n,), for each record of X, shape (n, attributes), as in `fit`.

        Raises:
            NotFittedError: before `fit`.
            PrivateValueError: if a record is out of range.
        """
        return np.asarray(self.classes_[self._predicted(X)])

    def score(self, X: ArrayLike, y: ArrayLike) -> float:  # noqa: N803 - as scikit-learn
        """Return the share of correctly predicted labels, which is as private as the records.

        Raises:
            NotFittedError: before `fit`.
            PrivateValueError: if a record or label is out of range, or there are no records.
        """
        predicted = self._predicted(X)
        labels = self._label_codes(y, len(predicted))
        if not len(labels):
            raise PrivateValueError("at least one record")
        return float(np.mean(predicted == labels))

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the constructor's arguments by name; `deep` has no effect."""
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    def set_params(self, **parameters: Any) -> Self:
        """Change arguments, and reset the classifier to its unfitted state.

        Raises:
            ParameterError: if an argument is unknown or out of range; nothing is changed then.
        """
        current = self.get_params()
        for name in parameters:
            if name not in current:
                raise ParameterError("parameter", name, "one of " + ", ".join(current))
        fresh = type(self)(**{**current, **parameters})
        vars(self).clear()
        vars(self).update(vars(fresh))
        return self

    def _label_codes(self, y: ArrayLike, records: int) -> Codes:
        labels = np.asarray(y)
        expected = "one of the public labels for each record"
        if labels.shape != (records,):
            raise PrivateValueError(expected)
        order = np.argsort(self.classes_)
        try:
            positions = np.searchsorted(self.classes_, labels, sorter=order)
        except TypeError:
            raise PrivateValueError(expected) from None
        codes = order[np.minimum(positions, len(order) - 1)]
        if not np.array_equal(self.classes_[codes], labels):
            raise PrivateValueError(expected)
        return np.asarray(codes, dtype=np.int64)

    def __repr__(self) -> str:
        arguments = ", ".join(f"{name}={value!r}" for name, value in self.get_params().items())
        return f"{type(self).__name__}({arguments})"
