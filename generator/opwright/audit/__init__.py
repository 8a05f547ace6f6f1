"""`opwright audit`: compares a published page of an operation with its spec, field by field.

    text -> forms (one reader per form) -> page.Page -> facts (what its tables say) -> compare -> findings -> report

A page is untrusted text: sizes are bounded, nothing in it is executed or fetched, and no text may crash a reader.
The parsers are imported when a page is read, so that other commands start faster.
"""
