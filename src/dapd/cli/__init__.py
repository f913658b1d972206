"""The command `dapd`: one file per subcommand."""

from __future__ import annotations

import typer

from dapd.cli.files import explain, solve
from dapd.cli.paper import reproduce
from dapd.cli.versions import info

app = typer.Typer(
    name="dapd",
    help="The optimal first-order solver for strongly convex problems with linear coupling.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)
for command in (solve, explain, reproduce, info):
    app.command()(command)
