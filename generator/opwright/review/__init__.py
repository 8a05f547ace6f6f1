"""The review of a change: two sides compared, each difference judged by a rule, its effect predicted and proven."""
