"""When messages reach consumers: at once, by long polling, or after a delay."""
