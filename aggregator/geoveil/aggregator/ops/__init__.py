"""What operators set and see: settings, certificates, tokens, limits, logs, metrics."""
