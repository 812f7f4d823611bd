"""Offsets: where queues begin and end, and how far a group has come in them."""
