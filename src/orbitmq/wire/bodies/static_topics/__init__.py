"""JSON bodies about static topics."""
