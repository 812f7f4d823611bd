"""Commands about a topic's settings."""
