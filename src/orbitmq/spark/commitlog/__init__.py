"""The CommitLog's files as a DataFrame: a broker's log directory read by itself, without the broker."""
