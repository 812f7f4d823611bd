"""Redelivery: how messages that were not done come again, and when they are given up."""
