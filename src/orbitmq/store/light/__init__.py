"""Light queues: what messages of other topics are put into as well, each with a number of its own (Java: LMQ)."""
