"""The jax engine: steps, certificates and loops compiled by XLA, on one device or on a mesh of them."""
