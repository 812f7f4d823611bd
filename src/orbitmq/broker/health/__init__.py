"""Health of a broker: findings as alerts, the health document, and the figures for Prometheus."""
