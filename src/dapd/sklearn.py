"""scikit-learn: linear models whose coefficients keep bounds and linear constraints."""

from dapd.frontends.needs import needs

with needs("sklearn"):
    from dapd.frontends.sklearn import ConstrainedLogisticRegression, ConstrainedRidge, LinearSVM

__all__ = ["ConstrainedLogisticRegression", "ConstrainedRidge", "LinearSVM"]
