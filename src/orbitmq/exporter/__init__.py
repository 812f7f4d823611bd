"""Metrics of any cluster, Java's or ours, for Prometheus: collected through the administrator's client, served from memory."""
