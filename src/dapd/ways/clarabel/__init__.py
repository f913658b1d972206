"""Clarabel as a candidate: the conic form of a problem, and the attempts to solve it."""
