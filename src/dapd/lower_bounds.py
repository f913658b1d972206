"""The paper's hard instances, on which no first-order method can be fast, and how close methods come to the bound."""

from dapd.paper.lower_bounds import *  # noqa: F403
from dapd.paper.lower_bounds import __all__ as __all__
