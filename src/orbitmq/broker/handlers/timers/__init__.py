"""Handlers of requests about messages that wait for a time of their own."""
