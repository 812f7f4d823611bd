"""Replication: the bytes that a master and its slaves exchange, and what a master owes each slave. Pure."""
