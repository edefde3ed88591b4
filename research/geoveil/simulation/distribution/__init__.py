"""Distributions of one number: geo-privacy compared with published protocols of ε-LDP."""
