"""Requests about users and their rules (3001 to 3010)."""
