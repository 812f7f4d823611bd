"""Transactions: half messages wait for their producers' decision, and who does not decide is asked."""
