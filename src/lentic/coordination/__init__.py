"""Who may act, and what time it is."""
