"""The assignment: which queues of a group a consumer reads, and how it follows changes."""
