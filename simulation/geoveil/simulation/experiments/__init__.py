"""The seed paper's experiments: its mechanisms and geoveil's, exactly or by simulation [MATH §12].

`oneway`, `twoway` and `kde` each turn panels into cells; `published` has what they share; `rows` is
what comes out.
"""
