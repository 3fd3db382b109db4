"""One task's data plane: Arrow in, Arrow out. No timeline, no Spark."""
