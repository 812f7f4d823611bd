"""Incidents: alerts of servers that begin and end, each told once."""
