"""Writes as users call them."""
