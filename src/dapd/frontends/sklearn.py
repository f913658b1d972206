"""scikit-learn: linear models whose coefficients keep bounds and linear constraints."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_is_fitted, validate_data

from dapd import Box, Function, Interval, Loss, Phi, Problem, Quadratic, Stack, Terms, solve
from dapd.arguments import bounds_of, number, warn
from dapd.arrays import Array
from dapd.frontends.rows import stacked
from dapd.frontends.scipy import rows_of
from dapd.functions import Composite
from dapd.functions.losses import LOGISTIC, SQUARE
from dapd.operators.convert import as_operator
from dapd.spectrum.estimate import singular_range

__all__ = ["ConstrainedLogisticRegression", "ConstrainedRidge", "LinearSVM"]

Rows = tuple[Any, Array, Phi]  # M, b and φ


def _check_target(y: Any) -> None:
    """Raise if an entry is None, which scikit-learn lets through or blames on something else."""
    targets = np.asarray(y)
    missing = [k for k, target in enumerate(targets.flat) if target is None] if targets.dtype == object else []
    if missing and targets.ndim:
        raise ValueError(f"y[{missing[0]}] is None; remove the samples without a target")


def _losses(loss: Loss, steepest: float, A: Any, d: Array, penalties: Array) -> Composite:
    """Σ ℓ(aᵢᵀx; dᵢ) + ½ Σ penaltyⱼ xⱼ², where ℓ'' ≤ steepest."""
    A = as_operator(A, name="X")
    L = steepest * singular_range(A, name="X")[1] ** 2 + float(penalties.max())
    return Composite(Terms(loss, A, d, H=penalties), penalties.size, float(penalties.min()), L)


class _Constrained(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """What the estimators share; each has the parameters that `_fit` reads."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _design(self, X: Any) -> Any:
        """X, with a column of ones if there is an intercept."""
        if not self.fit_intercept:
            return X
        ones = np.ones((X.shape[0], 1))
        return sp.hstack([X, ones], format="csr") if sp.issparse(X) else np.hstack([X, ones])

    def _padded(self, v: Array, last: float) -> Array:
        """An entry for the intercept, after those of the coefficients."""
        return np.append(v, last) if self.fit_intercept else v

    def _fit(self, f: Function, columns: int, losses: Rows | None = None) -> None:
        """Minimise f and losses = (M, b, φ) under the constraints."""
        parts = [] if losses is None else [losses]
        for one in rows_of(self.constraints, np.zeros(columns)):
            zero = np.zeros((one.matrix.shape[0], 1))
            hstack = sp.hstack if sp.issparse(one.matrix) else np.hstack
            matrix = hstack([one.matrix, zero]) if self.fit_intercept else one.matrix
            parts.append((matrix, zero[:, 0], Interval(one.lower, one.upper)))
        limits = None if self.bounds is None else bounds_of(self.bounds, columns)
        if parts:
            phi = Stack([part[2] for part in parts], sizes=[len(part[1]) for part in parts])
            M, b = stacked([part[0] for part in parts]), np.concatenate([part[1] for part in parts])
            problem = Problem(f, M, b, phi)
        else:
            problem = Problem(f, np.zeros((0, f.size or 0)), np.zeros(0))
        if limits is not None:
            lower, upper = limits
            problem = problem.replaced(limits=(self._padded(lower, -np.inf), self._padded(upper, np.inf)))
        result = solve(problem, tol=self.tol, max_iterations=self.max_iter)
        if result.status in ("infeasible", "unbounded"):
            raise ValueError(f"there are no such coefficients: {result.message}")
        if not result.converged:
            warn(f"{result.message} Increase max_iter or tol.", ConvergenceWarning)
        self.result_, self.n_iter_ = result, max(1, result.iterations)
        self.coef_ = result.x[:columns]
        self.intercept_ = float(result.x[-1]) if self.fit_intercept else 0.0

    def _score_of(self, X: Any) -> Array:
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)
        return X @ self.coef_ + self.intercept_


class _Classifier(ClassifierMixin, _Constrained):  # type: ignore[misc]
    """Two classes, from the sign of a score; `_terms` gives f, and the losses that are no part of it."""

    def __init__(
        self,
        C: float = 1.0,
        *,
        fit_intercept: bool = True,
        bounds: Any = None,
        constraints: Any = (),
        tol: float = 1e-6,
        max_iter: int | None = None,
    ) -> None:
        self.C, self.fit_intercept, self.bounds, self.constraints = C, fit_intercept, bounds, constraints
        self.tol, self.max_iter = tol, max_iter

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    def fit(self, X: Any, y: Any) -> Self:
        """Fit the coefficients."""
        _check_target(y)
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=np.float64)
        check_classification_targets(y)
        self.classes_ = np.unique(y)
        if len(self.classes_) > 2:
            raise ValueError(
                f"Only binary classification is supported. The type of the target is {type_of_target(y)}. "
                "For more classes use sklearn.multiclass.OneVsRestClassifier"
            )
        if len(self.classes_) < 2:
            raise ValueError(f"y has one class, {self.classes_[0]!r}; two are needed")
        labels, columns = np.where(y == self.classes_[1], 1.0, -1.0), X.shape[1]
        f, losses = self._terms(self._design(X), labels, self._padded(np.ones(columns), 0.0))
        self._fit(f, columns, losses)
        return self

    def decision_function(self, X: Any) -> Array:
        """Xw + intercept: positive for the second class."""
        return self._score_of(X)

    def predict(self, X: Any) -> Array:
        """The class of each row."""
        scores = self.decision_function(X)  # which checks that this is fitted
        return self.classes_[(scores > 0).astype(int)]


class ConstrainedRidge(RegressorMixin, _Constrained):  # type: ignore[misc]
    """½‖Xw + c − y‖² + (alpha/2)‖w‖² with bounds and linear constraints on w.

    Parameters
    ----------
    alpha : float
        Weight of the penalty.
    fit_intercept : bool
        Whether there is an intercept c; it is neither penalised nor constrained.
    bounds : pair (lower, upper), optional
        On w: numbers or vectors, infinite or None if there is none.
    constraints : scipy.optimize.LinearConstraint, or list of these
        On w.
    tol : float
        As in `dapd.solve`.
    max_iter : int, optional
        As `max_iterations` in `dapd.solve`.

    Attributes
    ----------
    coef_ : vector
        w.
    intercept_ : float
        c.
    n_iter_ : int
    result_ : dapd.Result
        With the multipliers and the certificate.
    """

    def __init__(
        self,
        alpha: float = 1.0,
        *,
        fit_intercept: bool = True,
        bounds: Any = None,
        constraints: Any = (),
        tol: float = 1e-6,
        max_iter: int | None = None,
    ) -> None:
        self.alpha, self.fit_intercept, self.bounds, self.constraints = alpha, fit_intercept, bounds, constraints
        self.tol, self.max_iter = tol, max_iter

    def fit(self, X: Any, y: Any) -> ConstrainedRidge:
        """Fit the coefficients."""
        _check_target(y)
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=np.float64, y_numeric=True)
        alpha, columns = number("alpha", self.alpha, least=0.0), X.shape[1]
        penalties = self._padded(np.full(columns, alpha), 0.0)
        self._fit(_losses(SQUARE, 1.0, self._design(X), y.astype(np.float64), penalties), columns)
        return self

    def predict(self, X: Any) -> Array:
        """Xw + intercept."""
        return self._score_of(X)


class ConstrainedLogisticRegression(_Classifier):
    """½‖w‖² + C Σ log(1 + exp(−yᵢ(xᵢᵀw + c))) for labels y = ±1, with bounds and linear constraints on w.

    Two classes; for more, use it in `sklearn.multiclass.OneVsRestClassifier`.

    Parameters
    ----------
    C : float
        Weight of the losses: a small one penalises more.
    fit_intercept, bounds, constraints, tol, max_iter
        As in `ConstrainedRidge`, and so are the attributes.
    """

    def _terms(self, design: Any, labels: Array, penalised: Array) -> tuple[Function, None]:
        return _losses(LOGISTIC, 0.25, design, labels, penalised / number("C", self.C, above=0.0)), None

    def predict_proba(self, X: Any) -> Array:
        """The probability of each class."""
        second = expit(self.decision_function(X))
        return np.column_stack([1 - second, second])


class LinearSVM(_Classifier):
    """½‖w‖² + C Σ max(0, 1 − yᵢ(xᵢᵀw + c)) for labels y = ±1, with bounds and linear constraints on w.

    Two classes; for more, use it in `sklearn.multiclass.OneVsRestClassifier`.

    Parameters
    ----------
    C, fit_intercept, bounds, constraints, tol, max_iter
        As in `ConstrainedLogisticRegression`, and so are the attributes.
    """

    def _terms(self, design: Any, labels: Array, penalised: Array) -> tuple[Function, Rows]:
        margins = sp.diags_array(labels) @ design if sp.issparse(design) else labels[:, None] * design
        cost = Box.between(0.0, number("C", self.C, above=0.0))
        return Quadratic(penalised), (-margins, -np.ones(len(labels)), cost)
