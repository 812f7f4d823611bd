"""Pulling one queue: the request, the long poll, and the window of messages that wait to be consumed."""
