"""The paper's problems."""

from dapd.experiments.compressed_sensing import compressed_sensing
from dapd.experiments.reference import newton

__all__ = ["compressed_sensing", "newton"]
