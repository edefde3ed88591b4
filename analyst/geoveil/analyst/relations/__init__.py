"""How several private answers of one person go together: tables, groups, moments, regressions."""
