"""Headers of requests about users and their rules."""
