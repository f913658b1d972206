"""The estimators: scikit-learn's own checks, its answers without constraints, and optimality with them."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.optimize import LinearConstraint
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import parametrize_with_checks

import dapd
from dapd.frontends.sklearn import ConstrainedLogisticRegression, ConstrainedRidge, LinearSVM

rng = np.random.default_rng(0)
X = rng.standard_normal((60, 6))
TARGET = X @ [1.0, -2.0, 0.5, 0.0, 3.0, 0.0] + 4 + 0.3 * rng.standard_normal(60)
CLASSES = np.where(TARGET + 3 * rng.standard_normal(60) > 4, "yes", "no")
LIMITS = [LinearConstraint(np.ones((1, 6)), 1, 1), LinearConstraint(sp.eye_array(2, 6), -np.inf, 0.5)]


@parametrize_with_checks([ConstrainedRidge(), ConstrainedLogisticRegression(), LinearSVM()])
def test_scikit_learn_accepts(estimator, check):
    check(estimator)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array, pd.DataFrame])
def test_without_constraints_it_is_the_model_of_scikit_learn(kind, intercept):
    ridge = ConstrainedRidge(alpha=2.0, fit_intercept=intercept, tol=1e-9).fit(kind(X), TARGET)
    theirs = Ridge(alpha=2.0, fit_intercept=intercept).fit(X, TARGET)
    assert abs(ridge.coef_ - theirs.coef_).max() < 1e-6
    assert ridge.intercept_ == pytest.approx(theirs.intercept_, abs=1e-6)
    logistic = ConstrainedLogisticRegression(C=0.7, fit_intercept=intercept, tol=1e-9).fit(kind(X), CLASSES)
    theirs = LogisticRegression(C=0.7, fit_intercept=intercept, tol=1e-10).fit(X, CLASSES)
    assert abs(logistic.coef_ - theirs.coef_[0]).max() < 1e-5
    assert abs(logistic.predict_proba(kind(X)) - theirs.predict_proba(X)).max() < 1e-5
    if intercept:
        svm = LinearSVM(C=0.3, tol=1e-9).fit(kind(X), CLASSES)
        theirs = SVC(C=0.3, kernel="linear", tol=1e-9).fit(X, CLASSES)
        assert abs(svm.coef_ - theirs.coef_[0]).max() < 1e-5
        assert np.array_equal(svm.predict(kind(X)), theirs.predict(X))


def gradients(model):
    """The derivative of the objective at the coefficients and the intercept, without the penalty of the intercept."""
    scores = X @ model.coef_ + model.intercept_
    if isinstance(model, ConstrainedRidge):
        slopes, weight = scores - TARGET, model.alpha
    else:
        labels = np.where(model.classes_[1] == CLASSES, 1.0, -1.0)
        slopes, weight = -labels / (1 + np.exp(labels * scores)), 1 / model.C
    return X.T @ slopes + weight * model.coef_, slopes.sum()


@pytest.mark.parametrize("model", [ConstrainedRidge(tol=1e-9), ConstrainedLogisticRegression(tol=1e-9)])
def test_coefficients_are_optimal_under_the_constraints(model):
    model.set_params(bounds=(-0.4, None), constraints=LIMITS)
    model.fit(X, CLASSES if hasattr(model, "C") else TARGET)
    slope, of_intercept = gradients(model)
    y, z = model.result_.y, model.result_.z[:6]
    pull = y[0] + np.concatenate([y[1:], np.zeros(4)]) + z
    assert abs(slope + pull).max() < 1e-5
    assert abs(of_intercept) < 1e-5
    assert model.coef_.sum() == pytest.approx(1, abs=1e-6)
    assert model.coef_.min() >= -0.4 - 1e-6
    assert model.coef_[:2].max() <= 0.5 + 1e-6
    assert np.any(z < -1e-3)


def test_a_constrained_svm_is_better_than_its_neighbours():
    model = LinearSVM(C=0.5, bounds=(0, None), constraints=LIMITS[0]).fit(X, CLASSES)
    labels = np.where(model.classes_[1] == CLASSES, 1.0, -1.0)

    def cost(w, c):
        return 0.5 * w @ w + 0.5 * np.maximum(0, 1 - labels * (X @ w + c)).sum()

    best = cost(model.coef_, model.intercept_)
    for _ in range(200):
        w = rng.dirichlet(np.ones(6))
        w = model.coef_ + 10 ** -rng.uniform(0, 4) * (w - model.coef_)
        assert cost(w, model.intercept_ + 10 ** -rng.uniform(0, 4) * rng.standard_normal()) >= best - 1e-5


def test_it_works_in_pipelines_searches_and_for_several_classes():
    frame = pd.DataFrame(X, columns=list("abcdef"))
    search = GridSearchCV(
        make_pipeline(StandardScaler(), dapd.sklearn.ConstrainedRidge(bounds=(0, np.inf))),
        {"constrainedridge__alpha": [0.1, 10.0]},
    )
    search.fit(frame, pd.Series(TARGET))
    assert search.best_estimator_[-1].coef_.min() >= -1e-6
    several = np.digitize(TARGET, [2, 6])
    assert OneVsRestClassifier(LinearSVM()).fit(frame, several).score(frame, several) > 0.6


def test_what_cannot_be_fitted_is_told():
    with pytest.raises(ValueError, match="no such coefficients"):
        ConstrainedRidge(bounds=(0, 0.1), constraints=LIMITS).fit(X, TARGET)
    with pytest.raises(ValueError, match=r"constraint 0\.A has 3 columns, expected 6"):
        ConstrainedRidge(constraints=LinearConstraint(np.ones((1, 3)), 0, 1)).fit(X, TARGET)
    with pytest.warns(ConvergenceWarning, match="Increase max_iter"):
        LinearSVM(max_iter=1).fit(X, CLASSES)


@pytest.mark.parametrize("kind", [list, np.array, lambda y: pd.Series(y, dtype=object)])
@pytest.mark.parametrize("model", [ConstrainedRidge(), LinearSVM()])
def test_a_target_that_is_none_is_named(model, kind):
    with pytest.raises(ValueError, match=r"y\[1\] is None"):
        model.fit(X[:4], kind([1, None, -1, 1]))


@pytest.mark.parametrize("far", [1e20, 1e30])
def test_far_bounds_are_none(far):
    model = ConstrainedRidge(alpha=2.0, bounds=(-far, far), tol=1e-9).fit(X, TARGET)
    assert abs(model.coef_ - Ridge(alpha=2.0).fit(X, TARGET).coef_).max() < 1e-6
    rows = LinearConstraint(np.ones((1, 6)), -far, far)
    again = ConstrainedRidge(alpha=2.0, constraints=rows, tol=1e-9).fit(X, TARGET)
    assert abs(model.coef_ - again.coef_).max() < 1e-6
