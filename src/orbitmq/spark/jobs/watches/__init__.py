"""Samples of how a cluster does, kept through kills, and their picture."""
