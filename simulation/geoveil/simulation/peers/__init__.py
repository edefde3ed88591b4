"""Other packages and published formulas beside geoveil, at one task: `geoveil compare`."""
