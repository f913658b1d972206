"""The front door, in the order in which a solve passes through it.

`solve` checks the options (`settings`), chooses candidates (`choice`; they are in `dapd.ways`), lets them race
(`race`, which decides when to stop, and asks `side_questions`), and makes the result and its sentences (`answer`).
`Solver` and `batch` solve several problems, `explain` none.
"""
