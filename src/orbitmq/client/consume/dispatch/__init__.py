"""Dispatch: the way of batches from the queues to handlers and loops."""
