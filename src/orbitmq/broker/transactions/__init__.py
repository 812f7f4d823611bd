"""Transactions: half messages wait for their producers' decision, and undecided producers are asked."""
