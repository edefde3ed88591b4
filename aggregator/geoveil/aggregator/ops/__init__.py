"""Operations: settings, certificates, tokens, limits, logs, metrics."""
