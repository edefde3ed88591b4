"""Answers over time from one perturbed number an epoch: `geoveil simulate epochs` [MATH §13]."""
