"""Where the command `dapd` starts.

It is not a part of the package dapd, whose imports take most of a second: Ctrl-C in that time ends the command quietly.
"""

import os
import signal

CTRL_C = 130  # the exit status that shells give to it


def main() -> None:
    """Import the command line and run it."""
    # a handler, since imported modules may swallow a KeyboardInterrupt; a shell may have set to ignore Ctrl-C
    heeded = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if heeded:
        signal.signal(signal.SIGINT, lambda *_: os._exit(CTRL_C))
    from dapd.cli import app

    if heeded:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    app()
