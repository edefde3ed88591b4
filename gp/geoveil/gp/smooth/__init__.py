"""Smooth sensitivity: how fast a bound may change, and what that costs in privacy."""
