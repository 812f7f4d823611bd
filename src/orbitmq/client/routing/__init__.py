"""Routes: the NameServers that tell them, the cache that keeps them, and the queues that they lead to."""
