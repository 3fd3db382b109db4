"""What keeps a table healthy, and the flows that tie writes and services together."""
