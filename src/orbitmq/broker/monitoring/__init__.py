"""Figures of a broker's work."""
