"""The paper's problems, and independent solutions to measure the methods by."""

from dapd.paper.experiments import (
    compressed_sensing,
    newton,
    qp_inequality,
    qp_l1,
    reference,
    system_identification,
)

__all__ = [
    "compressed_sensing",
    "newton",
    "qp_inequality",
    "qp_l1",
    "reference",
    "system_identification",
]
