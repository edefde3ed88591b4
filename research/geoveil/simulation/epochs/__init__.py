"""Answers over time from one perturbed number per epoch: `geoveil simulate epochs` [MATH §13]."""
