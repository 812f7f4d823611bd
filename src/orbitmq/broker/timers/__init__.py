"""Messages that are delivered at a time of their own, and how they are taken back."""
