"""The on-disk format: names and bytes to values and back. Pure; nothing here does I/O."""
