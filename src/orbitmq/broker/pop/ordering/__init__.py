"""Queues that groups pop in order: the batches that are out, their file, and who waits until they are back."""
