"""Commands about users of brokers, and their rules."""
