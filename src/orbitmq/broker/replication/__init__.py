"""Replication in a broker: the port where slaves follow the log."""
