"""The route table: its state, its rules, the leases of brokers, and its changes as values."""
