"""The commands of `dapd`, run in this process."""

from typer.testing import CliRunner

from dapd.cli import app


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words])
