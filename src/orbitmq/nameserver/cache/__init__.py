"""Answers kept as bytes: routes by topic and by request, and equal values kept once."""
