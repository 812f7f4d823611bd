"""Consuming: which queues, what was pulled, what is done, and where to go on."""
