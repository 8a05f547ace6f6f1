"""Printing: views of kernels, entries, modules and pages for the templates."""
