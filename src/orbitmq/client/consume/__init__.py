"""Consuming: the assignment of queues, pulling, offsets, and the delivery of batches."""
