"""The paper's figures and tables, computed again and set beside the published ones."""

from dapd.reproduce.catalogue import ITEMS, Figure, Table, choose
from dapd.reproduce.report import Outcome, write_report
from dapd.reproduce.runs import title
from dapd.reproduce.schedule import Progress, complete

__all__ = ["ITEMS", "Figure", "Outcome", "Progress", "Table", "choose", "complete", "title", "write_report"]
