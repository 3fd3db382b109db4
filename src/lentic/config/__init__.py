"""Options: what users may set, typed, documented, and refused when they contradict each other."""
