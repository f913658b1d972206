"""Solutions that JAX can differentiate: `dapd.jax.solve`, and f and φ whose parameters may be traced arrays."""

try:
    import jax as _jax  # noqa: F401
except ModuleNotFoundError as error:
    if error.name != "jax":
        raise
    raise ModuleNotFoundError("dapd.jax needs JAX, which is not installed; try: pip install 'dapd[jax]'") from None

from dapd.derivatives import front as _front
from dapd.derivatives.front import *  # noqa: F403
from dapd.derivatives.jax.smooth import Smooth
from dapd.derivatives.jax.solve import solve
from dapd.engines.jax.mesh.place import load_shards

__all__ = ["Smooth", "load_shards", "solve"]
__all__ += _front.__all__
