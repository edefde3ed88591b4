"""For operators: settings, certificates, tokens, limits, logs, metrics."""
