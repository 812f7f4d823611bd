"""Consume queues: the index of one queue's messages in the CommitLog, their table, and reading through them."""
