"""Answers kept as bytes: routes by topic, and whole answers by the text of the query."""
