"""Assignments that the broker computes for its consumers: who reads which queues, by pulling or by popping."""
