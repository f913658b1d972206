"""What to install when the library of a front end is missing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def needs(library: str) -> Iterator[None]:
    """Name the command that installs `library`, also the name of dapd's extra, if an import finds it missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != library:
            raise
        message = f"dapd.{library} needs {library}: pip install 'dapd[{library}]'"
        raise ModuleNotFoundError(message, name=library) from None
