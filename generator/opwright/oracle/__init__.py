"""Independent witnesses: the spec run directly, calls sampled from it, results compared, claims proven."""
