"""Registrations of brokers: recognised, compared, queued and applied."""
