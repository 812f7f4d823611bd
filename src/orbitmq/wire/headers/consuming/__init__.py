"""Headers of consumers: pulls and pops, and what they are answered."""
