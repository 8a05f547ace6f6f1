"""Exact algebra of sizes and letters: polynomials, slopes of an index, and what is proven never negative."""
