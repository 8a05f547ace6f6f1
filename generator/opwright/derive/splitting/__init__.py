"""How an operation may be split over parts of its sizes, derived from its semantics."""
