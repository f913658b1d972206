"""The paper's figures and tables, computed again and compared with the published ones."""

from dapd.paper.reproduce import *  # noqa: F403
from dapd.paper.reproduce import __all__ as __all__
