"""Traces: what a client tells of its messages' ways, written to a trace topic in the background."""
