"""A broker whose role controllers decide: its identity, its epochs, and what changes with its role."""
