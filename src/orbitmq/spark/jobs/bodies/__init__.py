"""Bodies held against a contract: what they say, or why they say nothing."""
