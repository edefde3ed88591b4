"""What analysts ask for: curves, quantiles, histograms, comparisons, each with its joint errors."""
