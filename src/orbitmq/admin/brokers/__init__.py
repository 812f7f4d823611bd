"""Brokers as administrators see them: what they have counted."""
