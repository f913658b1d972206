"""The native engine: the C++ core of src/core runs a method's step on a problem.

- A step becomes a program. `tracer` runs it once on symbols and notes what it does: linear combinations of vectors,
  gradients and dual steps. Each vector gets a register; the first registers hold the method's state and b.
- A problem becomes records of arrays and numbers. `layout` asks φ and f what they are; `maps` asks M, and chooses the
  kernel that multiplies fastest with it. A part of φ or f that the core does not know becomes rows for which the core
  calls Python (`calls`): the core computes base + Mv there, Python the prox, and the core Mᵀy.
- `runner` gives both to the core, advances it and counts; `threads` chooses how many threads a step is worth.
- Block-coordinate methods take too little time per step for a program. `blocks` runs loops that are written in C++, one
  per method, on the tables of `block_tables`.
"""
