"""Health of a broker: issues as alerts, the health document, and the metrics for Prometheus."""
