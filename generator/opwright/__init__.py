"""Opwright: from the specification of an operation to C kernels, validators, documentation and reviews."""

__version__ = "0.1.0"
