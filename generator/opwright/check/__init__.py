"""The rules of a spec beyond the schema of its text, grouped by subject and run in stages."""
