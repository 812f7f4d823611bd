"""Sending: requests and results, the choice of queues, retries, and batches in the background."""
