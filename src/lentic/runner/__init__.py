"""The runner: one process, of any number, that looks after many tables (`lentic serve`)."""
