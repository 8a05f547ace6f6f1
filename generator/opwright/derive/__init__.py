"""What follows from a spec: the order of a call, exact algebra, loop nests, bounds, and which kernels there are."""
