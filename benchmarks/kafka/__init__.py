"""Kafka, which the Spark rows are measured beside: its jars, and a server for the time of a run."""
