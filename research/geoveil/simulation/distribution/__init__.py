"""Distributions of one number under geo-privacy, beside the published protocols of ε-LDP."""
