"""Linear maps: what M, A and H may be."""
