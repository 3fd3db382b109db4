"""The timeline: what happened to the table, and what is under way."""
