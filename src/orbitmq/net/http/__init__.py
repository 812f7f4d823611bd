"""HTTP for machines: metrics, health and state. Pages for people belong to a dashboard."""
