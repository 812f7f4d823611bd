"""Answers of a running consumer to its administrators: what it does, where it is, one message consumed on request."""
