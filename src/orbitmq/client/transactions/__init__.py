"""Transactions of a producer: half messages, their ends, and the answers to brokers that ask."""
