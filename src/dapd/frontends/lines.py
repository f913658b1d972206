"""Mistakes in text files, with their lines."""

NOT_CONVEX = "integer variables are not supported, since dapd solves convex problems"


class WrongLine(Exception):
    """A mistake in a line."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(line, message)
        self.line, self.message = line, message
