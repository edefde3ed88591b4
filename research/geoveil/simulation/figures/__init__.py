"""Every figure that is drawn, with Matplotlib: of the demonstration, plans and experiments.

The ending of a file says what is drawn into it: PNG, PDF or SVG.
"""
