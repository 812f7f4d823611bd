"""Backups of a cluster over the network: its tables and messages in a directory, and back into the same or another cluster.

Source: docs/formats/backup.md.
"""
