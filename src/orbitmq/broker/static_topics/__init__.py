"""Static topics: which logical queues this broker leads, and how requests about them become requests about its own."""
