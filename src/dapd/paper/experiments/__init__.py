"""The paper's problems, and independent solutions to measure the methods by."""

from dapd.paper.experiments.problems import compressed_sensing, qp_inequality, qp_l1, system_identification
from dapd.paper.experiments.references import newton, reference

__all__ = ["compressed_sensing", "newton", "qp_inequality", "qp_l1", "reference", "system_identification"]
