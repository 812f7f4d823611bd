"""Whole brokers, NameServers and clients on a simulated network, clock and disk: one seed is one life, played again bit for bit."""
