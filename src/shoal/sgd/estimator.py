"""scikit-learn's interface without scikit-learn: arguments that can be read and set, clones, and checked arrays."""

import inspect
import sys
import warnings
from functools import lru_cache
from types import ModuleType
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shoal.errors import KindError, NotFiniteError, NotFittedError, ParameterError
from shoal.sgd.account import Account

EXPECTED_FAILED_CHECKS = {
    "check_fit_idempotent": "every fit draws fresh noise, so that two on the same data differ, as they must",
    "check_classifier_data_not_an_array": "the predictions of two fits are compared, which differ by their noise",
    "check_supervised_y_2d": "the predictions of two fits are compared, which differ by their noise",
}
"""What `sklearn.utils.estimator_checks.check_estimator` cannot pass, and why: its `expected_failed_checks`."""
_ROWS = 1 << 14
_MOST_CLASSES = 1000
"""With more labels than this, they are probably something else."""


class Estimator:
    """What can be trained: the constructor stores its arguments and does nothing else; `fit` sets the attributes."""

    classes_: NDArray[Any]
    coef_: NDArray[np.float64]
    intercept_: NDArray[np.float64]
    _account: Account
    _names: tuple[str, ...]
    _labels_from_data: bool = True  # unless `fit` says otherwise: a model of 0.2.0 does not

    _estimator_type = "classifier"  # how scikit-learn before 1.6 knows

    @classmethod
    def _defaults(cls) -> dict[str, Any]:
        return {name: each.default for name, each in inspect.signature(cls).parameters.items()}

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the arguments; `deep` is there for scikit-learn, and changes nothing."""
        return {name: getattr(self, name) for name in sorted(self._defaults())}

    def set_params(self, **params: Any) -> Self:
        """Set arguments, and return the estimator; what was trained before stays until it is trained again."""
        names = sorted(self._defaults())
        for name in params:
            if name not in names:
                raise ParameterError(
                    f"{name!r} is no argument of {type(self).__name__}; there are {', '.join(map(repr, names))}"
                )
        for name, value in params.items():
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        """Show the arguments that are not the usual ones."""
        usual = self._defaults()
        shown = [f"{name}={value!r}" for name, value in self.get_params().items() if repr(value) != repr(usual[name])]
        return f"{type(self).__name__}({', '.join(shown)})"

    def __sklearn_is_fitted__(self) -> bool:
        """Tell whether it was trained."""
        return hasattr(self, "coef_")

    def __sklearn_tags__(self) -> Any:
        """Tell scikit-learn that this is a classifier, whose answers have noise in them."""
        from sklearn.utils import ClassifierTags, Tags, TargetTags

        return Tags(
            estimator_type="classifier",
            target_tags=TargetTags(required=True),
            classifier_tags=ClassifierTags(),
            non_deterministic=True,
        )

    def _check_fitted(self) -> None:
        if not self.__sklearn_is_fitted__():
            raise _not_fitted(_loaded())(f"this {type(self).__name__} is not fitted yet; call fit(X, y) first")


def _loaded() -> ModuleType | None:
    """Return the exceptions of scikit-learn, if somebody has loaded it: nobody else expects them."""
    return sys.modules.get("sklearn.exceptions")


@lru_cache(maxsize=1)
def _not_fitted(theirs: ModuleType | None) -> type[NotFittedError]:
    """Return our error, which is theirs too where they are loaded."""
    return NotFittedError if theirs is None else type("NotFittedError", (NotFittedError, theirs.NotFittedError), {})


def checked_features(values: ArrayLike, *, features: int | None = None, name: str = "the model") -> NDArray[Any]:
    """Return the examples as rows of float32 or float64, in C order; copied only where that is needed."""
    if hasattr(values, "toarray"):
        raise ParameterError("X is sparse, which is not supported; hand over X.toarray()")
    try:
        array = np.asarray(values)
        if array.dtype not in (np.float32, np.float64):
            if np.iscomplexobj(array):
                raise ParameterError("Complex data not supported; X must be real numbers")
            array = array.astype(np.float64)
    except (TypeError, ValueError) as error:
        if isinstance(error, ParameterError):
            raise
        kind = KindError if isinstance(error, TypeError) else ParameterError
        raise kind(f"X must be an array of numbers with one row for each example: {error}") from None
    if array.ndim != 2:
        raise ParameterError(
            f"X must be 2-dimensional, one row for each example, got {array.ndim} dimensions. Reshape your data: "
            "X.reshape(-1, 1) if it has one feature, X.reshape(1, -1) if it is one example"
        )
    if features is not None and array.shape[1] != features:
        raise ParameterError(f"X has {array.shape[1]} features, but {name} is expecting {features} features as input")
    if not array.shape[0]:
        raise ParameterError(f"X has 0 sample(s) (shape={array.shape}) while a minimum of 1 is required.")
    if not array.shape[1]:
        raise ParameterError(f"X has 0 feature(s) (shape={array.shape}) while a minimum of 1 is required.")
    return np.ascontiguousarray(array)


def column_names(values: Any) -> tuple[str, ...]:
    """Return the names of the columns of a data frame; none if there are none."""
    names = tuple(getattr(values, "columns", ()))
    return names if all(isinstance(name, str) for name in names) else ()


def row_lengths(rows: NDArray[Any], *, intercept: bool) -> NDArray[np.float64]:
    """Return the length of every row, with the 1 of an intercept, and refuse the first that is not finite."""
    lengths = np.empty(len(rows))
    with np.errstate(over="ignore", invalid="ignore"):
        for start in range(0, len(rows), _ROWS):
            part = rows[start : start + _ROWS].astype(np.float64, copy=False)
            np.einsum("ij,ij->i", part, part, out=lengths[start : start + _ROWS])
    lengths += intercept
    if not np.isfinite(lengths.max()):
        row = int(np.flatnonzero(~np.isfinite(lengths))[0])
        what = (
            "NaN" if np.isnan(rows[row]).any() else "infinity" if np.isinf(rows[row]).any() else "numbers above 1e150"
        )
        raise NotFiniteError(f"X contains {what} in row {row}; mend or leave out that example. Nothing was spent")
    return np.sqrt(lengths, out=lengths)


def checked_labels(values: ArrayLike, *, examples: int, classes: ArrayLike | None) -> tuple[NDArray[Any], Any]:
    """Return the sorted classes, and the index of each label among them."""
    if values is None:
        raise ParameterError("fit requires y to be passed, but the target y is None")
    labels = np.asarray(values)
    if labels.ndim == 2 and labels.shape[1] == 1:
        warnings.warn(
            "A column-vector y was passed when a 1d array was expected; its column is used. Use y.ravel()",
            getattr(_loaded(), "DataConversionWarning", UserWarning),
            stacklevel=3,
        )
        labels = labels[:, 0]
    if labels.ndim != 1:
        raise ParameterError(f"y must have one label for each example, got shape {labels.shape}", "y")
    if len(labels) != examples:
        raise ParameterError(f"X has {examples} examples and y has {len(labels)}: inconsistent numbers of samples")
    if labels.dtype.kind == "f":
        if not np.isfinite(labels).all():
            row = int(np.flatnonzero(~np.isfinite(labels))[0])
            raise NotFiniteError(f"y contains NaN or infinity in row {row}; mend or leave out that example")
        if (labels != np.rint(labels)).any():
            raise ParameterError("Unknown label type: y has fractions, and a classifier needs the names of classes")
    try:
        seen, indices = np.unique(labels, return_inverse=True)
    except TypeError:
        raise ParameterError(
            "y must have labels of one kind, numbers or texts, and none that is missing", "y"
        ) from None
    if classes is None and len(seen) > _MOST_CLASSES:
        raise ParameterError(
            f"y has {len(seen):,} different labels; is it a number? A classifier needs the names of a few classes: if "
            "these are names, give all of them as classes="
        )
    kinds = seen if classes is None else np.unique(np.asarray(classes))
    if len(kinds) < 2:
        raise ParameterError(f"there must be at least 2 classes, got 1 class only: {kinds.tolist()}")
    if classes is not None:
        strange = [label for label in seen.tolist() if label not in set(kinds.tolist())]
        if strange:
            raise ParameterError(f"y has the label {strange[0]!r}, which is not one of classes={kinds.tolist()}")
        indices = np.searchsorted(kinds, seen)[indices]
    return kinds, indices


def are_conventional(classes: NDArray[Any]) -> bool:
    """Return whether the classes are 0 and 1, or False and True, which tells nothing of the data."""
    return set(classes.tolist()) <= {0, 1}
