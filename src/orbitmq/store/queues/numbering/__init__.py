"""The numbering of messages in light queues, while a store is written to."""
