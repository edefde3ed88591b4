"""Smooth sensitivity: the rate of change of a bound, and its privacy cost."""
