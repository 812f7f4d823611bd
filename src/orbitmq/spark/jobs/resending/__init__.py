"""Messages sent again: at a rate, in the order of each key, and once each though the job is killed."""
