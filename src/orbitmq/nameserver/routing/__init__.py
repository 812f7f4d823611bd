"""The route table, the leases that keep it alive, and the events that its changes are told as."""
