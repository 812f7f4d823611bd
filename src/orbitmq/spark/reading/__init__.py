"""The way from a topic to a task's batches: offsets, their ranges, and the pulls that read a range."""
