"""NameServers, routes, and the queues that they lead to."""
