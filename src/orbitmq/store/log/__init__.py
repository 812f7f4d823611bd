"""The CommitLog, and what every log of the store is made of: segments, files of one size."""
