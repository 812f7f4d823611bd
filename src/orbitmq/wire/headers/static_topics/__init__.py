"""Headers of requests about static topics."""
