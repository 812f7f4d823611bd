"""`send_soon`: messages gather per queue and travel in batches, within a bound on what is in flight."""
