"""Replication: the bytes that a master and its slaves exchange, and what a master has still to send to each slave. Pure."""
