"""Running consumers: offsets of their queues, what they say of themselves, and what came of one message."""
