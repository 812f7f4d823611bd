"""Monitoring: what every server has (figures of its port and process, alerts, pages for machines), and watches of clusters."""
