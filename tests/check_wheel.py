"""What a wheel must do on the machine that built it: every variant of the core solves. Needs only dapd itself."""

import numpy as np

import dapd
from dapd.engines.native.runner import NativeRunner
from dapd.machine.core import load, variants


def main() -> None:
    rng = np.random.default_rng(0)
    M, x = rng.standard_normal((5, 20)), rng.standard_normal(20)
    problem = dapd.Problem(dapd.PseudoHuber(1.0), M, M @ x)
    assert dapd.solve(problem).status == "optimal"
    result = dapd.solve(problem, "y-dapd", engine="native", tol=1e-9)
    assert result.converged, result
    method = dapd.METHODS[result.method](problem, parameters=result.parameters)
    assert variants(), "the wheel has no core"
    for variant in variants():
        runner = NativeRunner(method, core=load(variant))
        runner.start()
        runner.advance(result.iterations, np.inf)
        np.testing.assert_allclose(runner.point()[0], result.x, rtol=1e-9, atol=1e-9)
        print(variant, "solves")


if __name__ == "__main__":
    main()
