"""Consequences: of a stamp, of the records of the marker topic, and of a broker's settings."""
