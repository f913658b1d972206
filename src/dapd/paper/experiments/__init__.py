"""The paper's problems, and independent solutions to measure the methods by."""

from dapd.paper.experiments.compressed_sensing import compressed_sensing
from dapd.paper.experiments.quadratic_programs import qp_inequality, qp_l1
from dapd.paper.experiments.references import newton, reference
from dapd.paper.experiments.system_identification import system_identification

__all__ = ["compressed_sensing", "newton", "qp_inequality", "qp_l1", "reference", "system_identification"]
