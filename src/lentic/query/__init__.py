"""Reading: plan the scan, then read its slices."""
