"""The seed paper's experiments: its mechanisms and geoveil's, exactly or drawn [MATH §12]."""
