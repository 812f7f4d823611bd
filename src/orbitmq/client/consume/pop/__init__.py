"""Messages that brokers give for a time: answers to pops, handles, acks."""
