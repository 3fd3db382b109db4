"""Answers for operators: why an instant, a file or a key is as it is, and what ails a table."""
