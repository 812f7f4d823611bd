"""Monitoring of a NameServer: journal, alerts, metrics, health, and a comparison with another NameServer."""
