"""Bodies of controllers: sync sets, elections, members."""
