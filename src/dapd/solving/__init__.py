"""The front door, in the order in which a solve passes through it.

`solve` checks the options (`settings`), chooses candidates (`choice`; they are in `dapd.ways`), lets them race
(`race`, which alone decides when to stop, and asks `side_questions`), and makes the result (`answer`, with
`sentences`). `Solver` and `batch` solve several problems, `explain` none.
"""
