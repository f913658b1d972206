"""Problems that are easier to solve and have the same solution: each transform is exactly undone."""

from dapd.presolve.bounds import BoundsAsRows, FixedVariables
from dapd.presolve.equations import Equations, OrthonormalRows
from dapd.presolve.factored import FactoredCurvature
from dapd.presolve.rows import EmptyRows, MergedRows
from dapd.presolve.scaling import ChangeOfVariables, ColumnScaling, DiagonalVariables, Equilibrated, RowScaling
from dapd.presolve.sorted_columns import SortedColumns
from dapd.presolve.transform import Presolve, Transform

# fewer rows and variables; what is fixed may leave empty rows
CLEANING = (EmptyRows.apply, Equations.apply, MergedRows.apply, FixedVariables.apply, EmptyRows.apply)
# better conditioned: κ = 1 for a quadratic f, columns alike, orthonormal equations, other rows of norm near one
CONDITIONING = (
    DiagonalVariables.apply,
    ChangeOfVariables.apply_to_equations,
    ColumnScaling.apply,
    OrthonormalRows.apply,
    RowScaling.apply,
)
# bounds as rows, without those of variables that have none if these are many
STACKING = (BoundsAsRows.apply, EmptyRows.apply)
# M keeps its shape and its kind
SCALING = (DiagonalVariables.apply, RowScaling.apply)

__all__ = [
    "CLEANING",
    "CONDITIONING",
    "SCALING",
    "STACKING",
    "BoundsAsRows",
    "ChangeOfVariables",
    "ColumnScaling",
    "DiagonalVariables",
    "EmptyRows",
    "Equations",
    "Equilibrated",
    "FactoredCurvature",
    "FixedVariables",
    "MergedRows",
    "OrthonormalRows",
    "Presolve",
    "RowScaling",
    "SortedColumns",
    "Transform",
]
