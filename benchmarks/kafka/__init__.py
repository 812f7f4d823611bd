"""Kafka, which the Spark rows are compared with: its jars, and a server for the time of a run."""
