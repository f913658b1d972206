"""Second-order steps: the proximal method of multipliers with semismooth Newton, and the linear systems it solves."""
