"""From rows to a committed instant."""
