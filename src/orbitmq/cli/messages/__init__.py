"""The commands that send and consume messages."""
