"""The command line: one sub-command per verb, rendering apart."""
