"""Handlers of POP consumers: messages for a time, their acks, and long polls for them."""
