"""Statistics for analysts: curves, quantiles, histograms, comparisons, each with joint errors."""
