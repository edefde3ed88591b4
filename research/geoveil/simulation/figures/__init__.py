"""The figures of the demonstration, plans and experiments, drawn with Matplotlib.

A file's extension chooses its format: PNG, PDF or SVG.
"""
