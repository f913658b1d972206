"""The paper's figures and tables, computed again and compared with the published ones."""

from dapd.paper.reproduce.catalogue import ITEMS, Figure, Item, Table, choose
from dapd.paper.reproduce.kept import summary
from dapd.paper.reproduce.outcome import Outcome
from dapd.paper.reproduce.report import is_full, write_report
from dapd.paper.reproduce.runs import title
from dapd.paper.reproduce.schedule import Progress, complete

__all__ = [
    "ITEMS",
    "Figure",
    "Item",
    "Outcome",
    "Progress",
    "Table",
    "choose",
    "complete",
    "is_full",
    "summary",
    "title",
    "write_report",
]
