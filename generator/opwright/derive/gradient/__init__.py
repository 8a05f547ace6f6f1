"""The gradient of an operation of steps, derived from its semantics by reverse mode: steps again, for people."""
