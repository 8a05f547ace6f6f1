"""Everything derived from a spec: the order of a call, exact algebra, loop nests, bounds, and the list of kernels."""
