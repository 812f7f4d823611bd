"""A broker whose role controllers decide: its identity, its questions to them, and what changes with its role."""
