"""Commands about running brokers: settings, run-time values, and what they have counted."""
