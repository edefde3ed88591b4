"""Relations between several private answers of a person: tables, groups, moments, regressions."""
