"""Which files make the table."""
