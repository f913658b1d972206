"""Clarabel as a candidate: the conic form of a problem, and the attempts to solve it."""

from dapd.ways.clarabel.candidate import Clarabel

__all__ = ["Clarabel"]
