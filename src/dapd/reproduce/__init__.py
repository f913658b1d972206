"""The paper's figures and tables, computed again and set beside the published ones."""

from dapd.reproduce.catalogue import ITEMS, choose
from dapd.reproduce.report import Outcome, write_report
from dapd.reproduce.schedule import Progress, complete

__all__ = ["ITEMS", "Outcome", "Progress", "choose", "complete", "write_report"]
