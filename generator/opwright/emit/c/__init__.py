"""The C interface of an exported package: validation, shapes and prototypes as C."""
