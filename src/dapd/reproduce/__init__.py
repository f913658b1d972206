"""The paper's figures and tables, computed again and compared with the published ones."""

from dapd.reproduce.catalogue import ITEMS, Figure, Item, Table, choose
from dapd.reproduce.kept import summary
from dapd.reproduce.outcome import Outcome
from dapd.reproduce.report import is_full, write_report
from dapd.reproduce.runs import title
from dapd.reproduce.schedule import Progress, complete

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
