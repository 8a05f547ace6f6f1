"""Calls of generated packages: written as text, read from graph dumps, executed in a process of their own."""
