"""Independent witnesses: interpret the spec directly, sample calls from it, compare results, prove claims."""
