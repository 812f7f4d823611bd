"""Shared by all connections of a server: room for unfinished frames and for unread answers, and turns of the loop."""
