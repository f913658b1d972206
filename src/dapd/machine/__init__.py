"""What is known of the machine: threads of BLAS, builds of the core, the clock, and how fast operations are."""
