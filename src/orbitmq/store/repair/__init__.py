"""Repairs of a store whose broker is stopped: the store's locks are held meanwhile."""
