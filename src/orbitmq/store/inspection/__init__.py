"""Looking at a store without opening it: nothing is mapped, locked or written, so a broker may run beside it."""
