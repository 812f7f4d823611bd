"""Requests of consumers: heartbeats, pulls, offsets, queue locks, and messages that are sent back."""
