"""Delivery of messages to consumers: by pulls, by long polling, or after a delay."""
