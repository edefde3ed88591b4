"""The seed paper's experiments: its mechanisms and geoveil's, exactly or by simulation [MATH §12].

`oneway`, `twoway` and `kde` each turn settings into cells; `runs` computes cells and keeps what is
finished; `rows` is what comes out.
"""
