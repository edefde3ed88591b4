"""The figures of the demonstration, plans and experiments, drawn with Matplotlib.

The ending of a file says what is drawn into it: PNG, PDF or SVG.
"""
