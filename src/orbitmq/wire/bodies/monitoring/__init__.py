"""Figures of a broker's work: of one thing, of all groups, of its slaves."""
