"""Benchmarks: ratios from one run on one machine, never bare seconds."""
