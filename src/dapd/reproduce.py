"""The paper's figures and tables, computed again and compared with the published ones."""

from dapd.paper.reproduce import (
    ITEMS,
    Figure,
    Item,
    Outcome,
    Progress,
    Table,
    choose,
    complete,
    is_full,
    summary,
    title,
    write_report,
)

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
