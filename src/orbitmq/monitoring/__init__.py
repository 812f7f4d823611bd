"""Monitoring that every server has: figures of its port and process, alerts that begin and end, pages for machines."""
