"""Requests of administrators that are about the broker as a whole, not about one topic or one group."""
