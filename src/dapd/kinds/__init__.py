"""φ: one class per kind, with all that engines, transforms and certificates ask of it.

`base` has the questions, and a φ of one's own needs `prox` and `value` alone. `sets` has what an indicator and its
support function share, and balls, `by_rows` intervals, `composed` conjugates and stacks. `table` is φ row by row, for
presolve, Newton steps and Clarabel; `native` the numbers that the core reads.
"""
