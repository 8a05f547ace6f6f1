"""From a program to one of the same meaning that is faster to run, or that kernels can run at all."""
