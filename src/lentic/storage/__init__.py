"""Bytes at paths under a root. Knows nothing of tables; see `base` for the guarantees."""
