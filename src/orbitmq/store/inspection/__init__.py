"""The inspection of a store without opening it: nothing is mapped, locked or written, so its broker may run."""
