"""The commands that run servers until a signal."""
