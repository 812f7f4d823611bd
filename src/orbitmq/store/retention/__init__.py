"""Retention: which files of the store have had their time, and their deletion."""
