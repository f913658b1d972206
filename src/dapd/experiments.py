"""The paper's problems, and independent solutions to measure the methods by."""

from dapd.paper.experiments import *  # noqa: F403
from dapd.paper.experiments import __all__ as __all__
