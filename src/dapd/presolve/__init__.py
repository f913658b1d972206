"""Problems that are easier to solve and have the same solution: each transform is exactly undone."""

from dapd.presolve.chain import Presolve
from dapd.presolve.change_of_variables import ChangeOfVariables
from dapd.presolve.empty_rows import EmptyRows
from dapd.presolve.equations import Equations
from dapd.presolve.exchanged_roles import ExchangedRoles
from dapd.presolve.fixed_variables import FixedVariables
from dapd.presolve.merged_rows import MergedRows
from dapd.presolve.orthonormal_rows import OrthonormalRows
from dapd.presolve.scaling import ColumnScaling, DiagonalVariables, RowScaling
from dapd.presolve.sorted_columns import SortedColumns
from dapd.presolve.transform import Transform

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
# M keeps its shape and its kind
SCALING = (DiagonalVariables.apply, RowScaling.apply)

__all__ = [
    "CLEANING",
    "CONDITIONING",
    "SCALING",
    "ChangeOfVariables",
    "ColumnScaling",
    "DiagonalVariables",
    "EmptyRows",
    "Equations",
    "ExchangedRoles",
    "FixedVariables",
    "MergedRows",
    "OrthonormalRows",
    "Presolve",
    "RowScaling",
    "SortedColumns",
    "Transform",
]
