"""The gradient of an operation of steps, derived from its semantics by reverse mode, as readable steps."""
