"""The paper's problems by name, as its figures and tables use them."""

from __future__ import annotations

from functools import partial

from dapd.paper.experiments import compressed_sensing, qp_inequality, qp_l1, system_identification
from dapd.paper.reproduce.runs import Experiment, Run

_CST = "Compressed sensing, s_max²/s_min² = {}, L/μ = {}"
_BLOCKS = {"n": 100, "m": 10_000, "nonzeros": 500, "blocks": 200}

EXPERIMENTS = {
    experiment.name: experiment
    for experiment in (
        Experiment(
            "cst-1",
            _CST.format("10⁵", "10⁴"),
            partial(compressed_sensing, coupling_condition=1e5, condition=1e4),
            microseconds=45,
        ),
        Experiment(
            "cst-2",
            _CST.format("10⁶", "10³"),
            partial(compressed_sensing, coupling_condition=1e6, condition=1e3),
            microseconds=45,
        ),
        Experiment(
            "cst-blocks-1",
            _CST.format("10⁴", "10⁵") + ", 200 blocks",
            partial(compressed_sensing, coupling_condition=1e4, condition=1e5, **_BLOCKS),
            microseconds=250,
            blocks=200,
        ),
        Experiment(
            "cst-blocks-2",
            _CST.format("10⁶", "10³") + ", 200 blocks",
            partial(compressed_sensing, coupling_condition=1e6, condition=1e3, **_BLOCKS),
            microseconds=250,
            blocks=200,
        ),
        Experiment(
            "nse-1",
            "System identification, p = 40, T = 10, L/μ = 10⁹",
            partial(system_identification, p=40, T=10, condition=1e9),
            microseconds=5,
        ),
        Experiment(
            "nse-2",
            "System identification, p = 100, T = 20, L/μ = 10⁴",
            partial(system_identification, p=100, T=20, condition=1e4),
            microseconds=35,
        ),
        Experiment("qp-l1", "QP with ‖Mx − b‖_∞ ≤ 0.01, s_max²/s_min² = 10⁶, L/μ = 10³", qp_l1, microseconds=15),
        Experiment("qp-inequality", "QP with Mx ≤ b, s_max²/s_min² ≈ 10⁶, L/μ = 10³", qp_inequality, microseconds=15),
    )
}

# products with blocks of M per iteration; a deterministic method makes two with each block. MMᵀ is stored, so moving
# the anchor of y-SBC-DAPD takes no product, which makes this number smaller than in the paper.
BLOCK_PRODUCTS = dict.fromkeys(("x-sbc-dapd", "y-sbc-dapd", "x-sbc-dapd-i", "y-sbc-dapd-i"), 4)


def run_cost(run: Run) -> float:
    """Roughly how many seconds a run takes; only used to show the remaining time."""
    experiment = EXPERIMENTS[run.experiment]
    share = BLOCK_PRODUCTS.get(run.method, 0) / (2 * experiment.blocks) or 1.0
    return 0.5 + 1e-6 * experiment.microseconds * share * run.iterations
