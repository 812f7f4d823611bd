"""The parts of a broker's state, by what they serve: tables, clients, sends, delivery, replication, monitoring."""
