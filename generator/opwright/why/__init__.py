"""`opwright why`: what a generated file, or a line of it, comes from, and what last moved that."""
