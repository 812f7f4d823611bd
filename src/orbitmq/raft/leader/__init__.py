"""One term of a leader: what it knows of its followers, what it sends, and which reads wait. Pure."""
