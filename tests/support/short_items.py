"""Figures and tables of the report that take no time."""

import dataclasses

from dapd.paper.reproduce.catalogue import Figure


def shortened(item, *, full=False):
    """The same figure or table with a tiny budget."""
    budget = {"full" if full else "quick": 30}
    if isinstance(item, Figure):
        return dataclasses.replace(item, panels=tuple(dataclasses.replace(p, **budget) for p in item.panels))
    return dataclasses.replace(item, **budget)
