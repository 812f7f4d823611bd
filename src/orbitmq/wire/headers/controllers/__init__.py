"""Headers of the requests to controllers, and of theirs to brokers."""
