"""Bringing the store's files to the disk: group commit, the flusher's thread, the checkpoint."""
