"""Static topics: made, and served in front of the handlers of plain queues."""
