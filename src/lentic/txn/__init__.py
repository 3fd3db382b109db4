"""Transactions: the lock, a fresh timeline, and the steps that may be taken on it."""
