"""Messages that wait for a time of their own: the wheel's slots, the log of units that they lead to, and the checkpoint."""
