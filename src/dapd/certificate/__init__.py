"""How far a point is from optimal, and proofs that there is no solution."""
