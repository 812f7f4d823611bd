"""Sending: requests, batches, retries, and the brokers that are avoided."""
